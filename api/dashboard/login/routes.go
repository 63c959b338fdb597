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
	form := func(path string, show, send page.Handler) {
		open(http.MethodGet, path, s.anybody(show))
		open(http.MethodPost, path, s.anybody(send))
	}
	form("/signin", s.showSignIn, s.signIn)
	form("/signin/code", s.requireHalfSignIn(s.showSignInCode), s.requireHalfSignIn(s.signInWithCode))
	form("/invitation/{token}", s.showInvitation, s.acceptInvitation)
	open(http.MethodPost, "/signout", s.anybody(s.signOut))
	if s.Mail {
		form("/password/forgot", s.showForgot, s.askForReset)
		form("/password/reset", s.showReset, s.resetPassword)
	}

	get := func(path string, h page.Handler) {
		open(http.MethodGet, page.ModeRoute+path, s.SignedIn(merchant.RoleViewer, h))
	}
	post := func(path string, h page.Handler) {
		open(http.MethodPost, page.ModeRoute+path, s.SignedIn(merchant.RoleViewer, h))
	}
	get("/confirm", s.showConfirm)
	get("/account", s.showAccount)
	get("/account/needs_factor", s.showNeedsFactor)
	post("/account/password", s.changePassword)
	post("/account/signout", s.signOutEverywhere)
	post("/account/second_factor", s.startFactor)
	get("/account/second_factor", s.showFactor)
	post("/account/second_factor/code", s.confirmFactor)
	post("/account/second_factor/remove", s.removeFactor)
	get("/account/recovery_codes", s.showRecoveryCodes)
	if s.Passkeys != nil {
		open(http.MethodPost, "/signin/passkey", s.anybody(s.signInWithPasskey))
		open(http.MethodPost, "/passkey/challenge", s.challengePasskey)
		open(http.MethodPost, page.ModeRoute+"/passkey/challenge", s.challengePasskey)
		post("/account/passkeys", s.addPasskey)
		post("/account/passkeys/new", s.startPasskey)
	}
	// mux takes the first route that fits, so names come before ids.
	post("/account/passkeys/{id}", s.renamePasskey)
	post("/account/passkeys/{id}/remove", s.removePasskey)
}
