package hosted

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
)

func TestLogo_IsKeptByItsVersion(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	merchant := h.refs[id].MerchantID
	require.Equal(t, http.StatusNotFound, h.get("/logo/"+merchant+"/0123456789abcdef.png").Code)
	require.NotContains(t, h.get("/"+id).Body.String(), "<img")

	var upload bytes.Buffer
	require.NoError(t, png.Encode(&upload, image.NewGray(image.Rect(0, 0, 40, 40))))
	logo, err := people.EncodeLogo(&upload)
	require.NoError(t, err)
	require.NoError(t, h.store.People.SetBrand(t.Context(), merchant, people.BrandChange{Logo: &logo}))
	address := regexp.MustCompile(`<img class="logo" src="/checkout(/logo/` + merchant + `/[0-9a-f]{16}\.png)" alt="">`).FindStringSubmatch(h.get("/" + id).Body.String())
	require.NotNil(t, address)
	w := h.get(address[1])
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, logo, w.Body.Bytes())
	for name, want := range map[string]string{
		"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Cache-Control": "public, max-age=31536000, immutable",
	} {
		require.Equal(t, want, w.Header().Get(name))
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, testURL+address[1], nil)
	r.Header.Set("If-None-Match", w.Header().Get("Etag"))
	require.Equal(t, http.StatusNotModified, h.do(r).Code)

	old := h.get("/logo/" + merchant + "/0123456789abcdef.png")
	require.Equal(t, logo, old.Body.Bytes(), "a page from before a change shows the present one")
	require.Equal(t, "no-cache", old.Header().Get("Cache-Control"))
	for _, path := range []string{"/logo/" + checkout.NewID(checkout.PrefixMerchant) + "/1.png", "/logo/" + id + "/1.png", "/logo/x/1.png", "/logo", "/logo/" + merchant} {
		require.Equal(t, http.StatusNotFound, h.get(path).Code, path)
	}
}
