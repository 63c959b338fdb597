package login

import (
	"net/http"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/merchant"
)

// Routes adds the routes of the pages that need nobody who is signed in, and of the page of the account. open adds a
// route without a check of the visitor.
func (s *Server) Routes(open func(method, path string, h web.Handler)) {
	open(http.MethodGet, "/signin", s.showSignIn)
	open(http.MethodPost, "/signin", s.signIn)
	open(http.MethodGet, "/signin/code", s.requireHalfSignIn(s.showSignInCode))
	open(http.MethodPost, "/signin/code", s.requireHalfSignIn(s.signInWithCode))
	open(http.MethodPost, "/signin/passkey", s.signInWithPasskey)
	open(http.MethodPost, "/passkey/challenge", s.challengePasskey)
	open(http.MethodGet, "/password/forgot", s.showForgot)
	open(http.MethodPost, "/password/forgot", s.askForReset)
	open(http.MethodGet, "/password/reset", s.showReset)
	open(http.MethodPost, "/password/reset", s.resetPassword)
	open(http.MethodPost, "/signout", s.signOut)
	open(http.MethodGet, "/invitation/{token}", s.showInvitation)
	open(http.MethodPost, "/invitation/{token}", s.acceptInvitation)

	get := func(path string, h page.Handler) {
		open(http.MethodGet, page.ModeRoute+path, s.SignedIn(merchant.RoleViewer, h))
	}
	post := func(path string, h page.Handler) {
		open(http.MethodPost, page.ModeRoute+path, s.SignedIn(merchant.RoleViewer, h))
	}
	open(http.MethodPost, page.ModeRoute+"/passkey/challenge", s.challengePasskey)
	get("/confirm", s.showConfirm)
	get("/account", s.showAccount)
	get("/account/needs_factor", s.showNeedsFactor)
	post("/account/password", s.changePassword)
	post("/account/signout", s.signOutEverywhere)
	post("/account/second_factor", s.startFactor)
	get("/account/second_factor", s.showFactor)
	post("/account/second_factor/code", s.confirmFactor)
	post("/account/second_factor/remove", s.removeFactor)
	post("/account/passkeys", s.addPasskey)
	post("/account/passkeys/new", s.startPasskey)
	post("/account/passkeys/{id}", s.renamePasskey)
	post("/account/passkeys/{id}/remove", s.removePasskey)
	get("/account/recovery_codes", s.showRecoveryCodes)
}
