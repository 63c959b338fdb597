package hosted

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
)

// rgb is an sRGB color.
type rgb struct{ r, g, b uint8 }

var (
	black = rgb{0, 0, 0}
	white = rgb{0xff, 0xff, 0xff}
)

// parseRGB reads six hex digits.
func parseRGB(s string) (c rgb, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 3 {
		return rgb{}, false
	}
	return rgb{b[0], b[1], b[2]}, true
}

func (c rgb) String() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

// luminance returns the relative luminance, 0 to 1. Source: WCAG 2.2.
func (c rgb) luminance() float64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.r) + 0.7152*linear(c.g) + 0.0722*linear(c.b)
}

// contrast returns the contrast ratio of two colors, 1 to 21. Source: WCAG 2.2.
func contrast(a, b rgb) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// onTop returns black or white, the one with more contrast to c: at least 4.58:1.
func (c rgb) onTop() rgb {
	if contrast(c, white) >= contrast(c, black) {
		return white
	}
	return black
}

// mix returns c mixed with other. part is other's share, 0 to 1.
func (c rgb) mix(other rgb, part float64) rgb {
	one := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (float64(b)-float64(a))*part)) }
	return rgb{one(c.r, other.r), one(c.g, other.g), one(c.b, other.b)}
}

// against moves c toward end until its contrast to every background is at least want. It moves c as
// little as possible.
func (c rgb) against(end rgb, want float64, backgrounds ...rgb) rgb {
	for part := 0.0; part < 1; part += 0.02 {
		moved, enough := c.mix(end, part), true
		for _, b := range backgrounds {
			enough = enough && contrast(moved, b) >= want
		}
		if enough {
			return moved
		}
	}
	return end
}

// scheme holds the backgrounds of api/web/colors.css in one color scheme. A color that is hard to see on
// them moves toward end.
type scheme struct {
	backgrounds []rgb
	end         rgb
}

var (
	light = scheme{[]rgb{{0xff, 0xff, 0xff}, {0xf4, 0xf6, 0xf7}}, black}
	dark  = scheme{[]rgb{{0x12, 0x16, 0x19}, {0x1a, 0x1f, 0x23}}, white}
)

// Required contrasts. Source: WCAG 2.2, 1.4.3 and 1.4.11. The values are a little higher,
// because browsers round.
const (
	textContrast = 4.6
	edgeContrast = 3.1
)

// palette holds a merchant's color, with enough contrast for one scheme.
type palette struct {
	accent   rgb // buttons: the merchant's own color
	strong   rgb // a button under the pointer
	onAccent rgb // text on accent and strong
	edge     rgb // borders of accent areas, and other shapes
	text     rgb // text on the page
}

func (s scheme) palette(c rgb) palette {
	top := c.onTop()
	away := black
	if top == black {
		away = white
	}
	return palette{
		accent: c, onAccent: top, strong: c.mix(away, 0.14), // away from the text's color, so the contrast grows
		edge: c.against(s.end, edgeContrast, s.backgrounds...), text: c.against(s.end, textContrast, s.backgrounds...),
	}
}

func (p palette) css() string {
	return fmt.Sprintf(":root{--accent:%s;--accent-strong:%s;--on-accent:%s;--accent-edge:%s;--accent-text:%s;--ring:%s}",
		p.accent, p.strong, p.onAccent, p.edge, p.text, p.text)
}

// colorSheet returns the style sheet for a merchant's color. The page cannot have the style itself;
// see web.Policy.
func colorSheet(c rgb) string {
	return light.palette(c).css() + "\n@media screen and (prefers-color-scheme:dark){" + dark.palette(c).css() + "}\n"
}

// colorAsset returns the address of a merchant's style sheet, "" without a color.
func (s *server) colorAsset(color string) string {
	c, ok := parseRGB(strings.TrimPrefix(color, "#"))
	if !ok {
		return ""
	}
	return s.base + "/color/" + strings.TrimPrefix(c.String(), "#") + "/style.css?v=" + sheetHash(colorSheet(c))
}

func sheetHash(sheet string) string {
	sum := sha256.Sum256([]byte(sheet))
	return hex.EncodeToString(sum[:8])
}

// colorStyle serves GET /color/{color}/style.css. Merchants with the same color share the answer.
func (s *server) colorStyle(w http.ResponseWriter, r *http.Request) error {
	c, ok := parseRGB(mux.Vars(r)["color"])
	if !ok {
		return failure.NotFound
	}
	sheet := colorSheet(c)
	hash := sheetHash(sheet)
	web.SetCacheHeaders(w, hash, r.URL.Query().Get("v") == hash)
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	http.ServeContent(w, r, "style.css", time.Time{}, strings.NewReader(sheet))
	return nil
}
