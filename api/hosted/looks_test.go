package hosted

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestContrast_IsThatOfWCAG(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"000000", "ffffff", 21}, {"ffffff", "ffffff", 1}, {"777777", "ffffff", 4.48}, {"767676", "ffffff", 4.54}, {"ff0000", "ffffff", 4.00}, {"0000ff", "ffffff", 8.59},
	} {
		a, _ := parseRGB(c.a)
		b, _ := parseRGB(c.b)
		require.InDelta(t, c.want, contrast(a, b), 0.01, c)
		require.InDelta(t, contrast(a, b), contrast(b, a), 1e-9)
	}
}

// Every 5th value of each channel: 132,651 colors.
func TestPalette_IsReadableWithAnyColor(t *testing.T) {
	t.Parallel()
	for _, s := range []scheme{light, dark} {
		for r := 0; r < 256; r += 5 {
			for g := 0; g < 256; g += 5 {
				for b := 0; b < 256; b += 5 {
					p := s.palette(rgb{uint8(r), uint8(g), uint8(b)})
					ok := contrast(p.onAccent, p.accent) >= 4.5 && contrast(p.onAccent, p.strong) >= 4.5
					for _, background := range s.backgrounds {
						ok = ok && contrast(p.text, background) >= 4.5 && contrast(p.edge, background) >= 3
					}
					if !ok {
						t.Fatalf("%v on %v", p, s.backgrounds)
					}
				}
			}
		}
	}
}

func TestPalette_LeavesAColorThatIsSafeAlone(t *testing.T) {
	t.Parallel()
	blue, _ := parseRGB("1144aa")
	p := light.palette(blue)
	require.Equal(t, []rgb{blue, blue, blue, white}, []rgb{p.accent, p.edge, p.text, p.onAccent})
	yellow, _ := parseRGB("ffe600")
	p = light.palette(yellow)
	require.Equal(t, []rgb{yellow, black}, []rgb{p.accent, p.onAccent})
	require.NotEqual(t, yellow, p.text)
}

// color.go computes with the backgrounds that checkout.css has.
func TestScheme_HasTheBackgroundsOfTheStyleSheet(t *testing.T) {
	t.Parallel()
	sheet := string(files.Content("checkout.css"))
	for i, name := range []string{"page", "side"} {
		found := regexp.MustCompile(`--`+name+`: #([0-9a-f]{6});`).FindAllStringSubmatch(sheet, -1)
		require.Len(t, found, 2)
		for j, s := range []scheme{light, dark} {
			require.Equal(t, s.backgrounds[i].String(), "#"+found[j][1], name)
		}
	}
	require.InDelta(t, math.Sqrt(21), 4.58, 0.01, "what black or white always reaches")
}

func TestPage_WearsTheMerchantsColor(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	require.NotContains(t, h.get("/"+id).Body.String(), "/color/")
	color := "#FFE600"
	require.NoError(t, h.store.People.SetBrand(t.Context(), h.refs[id].MerchantID, people.BrandChange{Color: &color}))
	address := regexp.MustCompile(`href="/checkout(/color/ffe600/style\.css\?v=[0-9a-f]{16})"`).FindStringSubmatch(h.get("/" + id).Body.String())
	require.NotNil(t, address)
	w := h.get(address[1])
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Header().Get("Content-Type"), "text/css")
	require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
	require.True(t, strings.HasPrefix(w.Body.String(), ":root{--accent:#ffe600;--accent-strong:#ffea24;--on-accent:#000000;"), w.Body.String())
	require.Equal(t, "no-cache", h.get("/color/ffe600/style.css").Header().Get("Cache-Control"))
	for _, bad := range []string{"ffe60", "ffe6000", "red", "ffe60g", "%23ffe6"} {
		require.Equal(t, http.StatusNotFound, h.get("/color/"+bad+"/style.css").Code, bad)
	}
}

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

func TestStatic_MayBeKeptByItsHash(t *testing.T) {
	t.Parallel()
	s := newServer(Config{CheckoutURL: "http://localhost:8080"})
	handler := s.handler()
	for name, kind := range map[string]string{"checkout.css": "text/css", "checkout.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, s.asset(name), nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Content-Type"), kind)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/static/"+name+"?v=old", nil))
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	}
}

func TestFiles_LoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	for name := range files {
		content := strings.ReplaceAll(string(files.Content(name)), "http://www.w3.org/2000/svg", "")
		require.NotRegexp(t, `//cdn|https?://|@import|url\(`, content, name)
	}
	entries, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, e := range entries {
		content, err := templateFiles.ReadFile("templates/" + e.Name())
		require.NoError(t, err)
		require.NotRegexp(t, `https?:| style=|onclick=|<style|<script>`, string(content), e.Name())
	}
}
