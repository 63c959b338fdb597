package hosted

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
)

// Acquirer is the company whose own form takes the cards of a mode: Stripe. The form is in a frame of
// the acquirer's origin, so neither our script nor our server can read a card. Our form gets a
// confirmation token. NewAcquirer makes one.
type Acquirer struct {
	PublishableKey string // pk_…; pages show it
	ScriptURL      string // the acquirer's script, loaded from there and never copied
	// Sources are what the page with the form may load from the acquirer. No other page may.
	Sources web.Sources
	// Simulated: no card is real, and every page of a live session shows this.
	Simulated bool
}

// policy is the content security policy of the page with the form.
func (a *Acquirer) policy() string { return web.Policy(a.Sources) }

// stripeSources are what Stripe.js loads. Source: https://docs.stripe.com/security/guide, "Content
// security policy".
var stripeSources = web.Sources{
	Scripts:     []string{"https://js.stripe.com", "https://*.js.stripe.com"},
	Frames:      []string{"https://js.stripe.com", "https://*.js.stripe.com", "https://hooks.stripe.com"},
	Connections: []string{"https://api.stripe.com"},
}

// NewAcquirer returns Stripe, or with simulated a stand-in for it on loopback. It refuses a key that
// is not publishable, a key of Stripe's other mode, and a script from anywhere else. Its errors do not
// quote the key.
func NewAcquirer(mode checkout.Mode, publishableKey, scriptURL string, simulated bool) (*Acquirer, error) {
	u, err := url.Parse(scriptURL)
	if err != nil || !originShape.MatchString(u.Scheme+"://"+u.Host) || u.User != nil {
		return nil, errors.New("the address of the acquirer's script is not an absolute http or https URL")
	}
	a := &Acquirer{PublishableKey: publishableKey, ScriptURL: scriptURL, Simulated: simulated}
	origin := u.Scheme + "://" + u.Host

	switch {
	case !keyShape.MatchString(publishableKey):
		return nil, errors.New("the acquirer's publishable key does not begin with pk_: a page would show it")
	case simulated && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback():
		return nil, errors.New("a simulated acquirer's script must come from loopback, such as http://127.0.0.1:12111")
	case simulated && strings.HasPrefix(publishableKey, "pk_live_"):
		return nil, errors.New("a simulated acquirer must not get a key of the real one (pk_live_)")
	case simulated:
		only := []string{origin}
		a.Sources = web.Sources{Scripts: only, Frames: only, Connections: only}
	case origin != "https://js.stripe.com":
		return nil, errors.New("the acquirer's script must come from https://js.stripe.com, " + "unless it is simulated")
	case !strings.HasPrefix(publishableKey, "pk_"+string(mode)+"_"):
		return nil, fmt.Errorf("the acquirer's publishable key is not one of %s mode (pk_%s_)", mode, mode)
	default:
		a.Sources = stripeSources
	}
	return a, nil
}

var (
	// originShape has no character that means something else in a content security policy. Policies
	// cannot name IPv6 addresses.
	originShape = regexp.MustCompile(`^https?://[0-9A-Za-z.-]+(:[0-9]+)?$`)
	keyShape    = regexp.MustCompile(`^pk_[0-9A-Za-z_]{1,250}$`)
)
