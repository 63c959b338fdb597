package page

import "net/http"

// cookieName adds the prefix __Host- over https, so that browsers insist on https.
func (f *Renderer) cookieName(name string) string {
	if f.Secure {
		return "__Host-" + name
	}
	return name
}

// Cookie returns the value of a request's cookie, "" for none.
func (f *Renderer) Cookie(r *http.Request, name string) string {
	cookie, err := r.Cookie(f.cookieName(name))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// NewCookie returns a cookie. maxAge is in seconds: 0 means until the browser ends, and -1 removes the cookie.
func (f *Renderer) NewCookie(name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{ // #nosec G124 -- Secure over https; only loopback uses plain http
		Name: f.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: f.Secure, SameSite: http.SameSiteLaxMode,
	}
}

// SetCookie sets what NewCookie returns.
func (f *Renderer) SetCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, f.NewCookie(name, value, maxAge))
}
