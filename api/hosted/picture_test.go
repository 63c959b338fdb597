package hosted

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestPage_ShowsPicturesFromItsOwnOrigin(t *testing.T) {
	h := newHarness(t)
	beans, gone := "https://shop.example.test/beans.jpg?token=secret-canary", "https://shop.example.test/gone.jpg"
	id := h.session(func(n *storage.NewSession, _ *merchant.Merchant) {
		n.LineItems = []checkout.LineItem{
			{Name: "Beans", Quantity: 1, UnitAmount: 1000, ImageURL: &beans}, {Name: "Bag", Quantity: 1, UnitAmount: 50, ImageURL: &gone},
		}
	})
	pictures := h.pictures[id]
	require.Len(t, pictures, 2)
	require.NotContains(t, h.get("/"+id).Body.String(), `class="picture"`, "no picture is ready")

	files := map[string]storage.PictureFile{
		beans: {ContentType: "image/jpeg", Content: []byte("the picture"), Width: 192, Height: 144}, gone: {Failure: "timeout"},
	}
	var path string
	for _, p := range pictures {
		ref := h.refs[id].Owner.Ref(p.ID)
		_, _, err := h.store.Pictures.BeginPicture(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, h.store.Pictures.FinishPicture(t.Context(), ref, files[p.URL]))
		if p.URL == beans {
			path = "/" + id + "/pictures/" + p.ID
		}
	}
	body := h.get("/" + id).Body.String()
	require.Contains(t, body, `<li><img class="picture" src="/checkout`+path+`" width="192" height="144" alt="" decoding="async" loading="lazy"><span>Beans</span>`)
	require.Contains(t, body, `<li><span class="picture"></span><span>Bag</span>`, "an empty place: the names align")
	require.NotContains(t, body, "shop.example.test/beans", "the customer's browser never learns the address")

	w := h.get(path)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "the picture", w.Body.String())
	for name, want := range map[string]string{
		"Content-Type": "image/jpeg", "X-Content-Type-Options": "nosniff", "Cache-Control": "private, max-age=86400, immutable",
		"Content-Security-Policy": closedPolicy,
	} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
	other := h.session()
	for _, path := range []string{
		"/" + other + path[len("/"+id):], "/" + id + "/pictures/x", "/" + id + "/pictures/", "/x" + path[len("/"+id):],
		"/" + id + "/pictures/" + checkout.NewID(checkout.PrefixPicture),
	} {
		require.Equal(t, http.StatusNotFound, h.get(path).Code, path)
	}
}
