package hosted

import (
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/people"
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
