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
