package hosted

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// logoAsset is the address of a merchant's logo, "" without one. It changes
// with the logo, and no session can have it.
func (s *server) logoAsset(b storage.Brand) string {
	if !b.HasLogo() {
		return ""
	}
	return s.base + "/logo/" + b.MerchantID + "/" + b.LogoVersion + ".png"
}

// logo serves GET /logo/{merchant}/{version}.png: always the present logo, which
// may be kept when it has the version that was asked for.
func (s *server) logo(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["merchant"]
	if !checkout.IsID(checkout.PrefixMerchant, id) {
		return failure.NotFound
	}
	content, version, err := s.Store.Logo(r.Context(), id)
	if err != nil {
		return err
	}
	web.Keep(w, version, mux.Vars(r)["version"] == version)
	w.Header().Set("Content-Type", "image/png")
	http.ServeContent(w, r, "logo.png", time.Time{}, bytes.NewReader(content))
	return nil
}
