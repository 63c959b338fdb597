package hosted

import (
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// paramColor is the query parameter of a preview with a color that is not saved, six hex digits.
const paramColor = "color"

// preview serves GET /preview/{merchant}: the form in the merchant's looks, for a session that does not
// exist. It takes no payment. The address of a session shows the merchant's id too, so the page
// discloses nothing new.
func (s *server) preview(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["merchant"]
	if !checkout.IsID(checkout.PrefixMerchant, id) {
		return failure.NotFound
	}
	brand, err := s.People.Brand(r.Context(), id)
	if err != nil {
		return err
	}
	if c, ok := parseRGB(r.URL.Query().Get(paramColor)); ok {
		brand.Color = c.String()
	}
	const amount, lasts = 4990, 30 * time.Minute
	v := s.view(languageOf(r), checkout.Session{
		Ref:    checkout.Ref{Owner: checkout.Owner{MerchantID: id, Mode: checkout.ModeTest}},
		Amount: amount, Currency: money.EUR, Status: checkout.StatusPending, ExpiresAt: s.now().Add(lasts),
	}, brand)
	v.Acquirer, v.Next, v.Preview = nil, checkout.PreviewURL(s.base, id), true
	v = v.asForm()
	v.Poll = ""
	s.render(w, r, http.StatusOK, v)
	return nil
}
