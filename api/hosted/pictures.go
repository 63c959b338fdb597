package hosted

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
)

// logoAsset returns the address of a merchant's logo, "" without one. The address changes with the
// logo. It differs from every session's address.
func (s *server) logoAsset(b people.Brand) string {
	if !b.HasLogo() {
		return ""
	}
	return s.base + "/logo/" + b.MerchantID + "/" + b.LogoVersion + ".png"
}

// logo serves GET /logo/{merchant}/{version}.png. It always answers with the current logo. Browsers
// may keep the answer when the address names the current version.
func (s *server) logo(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["merchant"]
	if !checkout.IsID(checkout.PrefixMerchant, id) {
		return failure.NotFound
	}
	content, version, err := s.People.Logo(r.Context(), id)
	if err != nil {
		return err
	}
	web.SetCacheHeaders(w, version, mux.Vars(r)["version"] == version)
	w.Header().Set("Content-Type", "image/png")
	http.ServeContent(w, r, "logo.png", time.Time{}, bytes.NewReader(content))
	return nil
}

// picture is the picture of a line item. Its size is the file's. The style sheet sets the shown size.
type picture struct {
	Address       string
	Width, Height int
}

// pictureOf returns the picture of an item, nil when there is none that can be shown.
func (s *server) pictureOf(session checkout.Session, i checkout.LineItem) *picture {
	for _, p := range session.Pictures {
		if i.ImageURL != nil && *i.ImageURL == p.URL {
			return &picture{s.path(session.ID) + "/pictures/" + p.ID, p.Width, p.Height}
		}
	}
	return nil
}

// picture serves GET /{id}/pictures/{picture}. A picture's content never changes: a new fetch has a new id. Only
// the customer's browser may keep it, because its address has the session's id.
func (s *server) picture(w http.ResponseWriter, r *http.Request) error {
	session, id := mux.Vars(r)["id"], mux.Vars(r)["picture"]
	if !checkout.IsID(checkout.PrefixSession, session) || !checkout.IsID(checkout.PrefixPicture, id) {
		return failure.NotFound
	}
	file, err := s.Sessions.CustomerPicture(r.Context(), session, id)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, max-age=86400, immutable")
	w.Header().Set("Content-Type", file.ContentType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.Content))
	return nil
}
