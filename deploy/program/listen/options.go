package listen

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/webhook"
	"github.com/agnivade/levenshtein"
)

// Options say which events listen forwards, and to which server.
type Options struct {
	APIKey    string // a key of test mode
	APIURL    string // the REST API's URL
	PlainHTTP bool   // the key may go unencrypted to another computer
	ForwardTo string // the local server's URL
	Events    []webhook.EventType
	Since     time.Time // where to begin; zero: at the state file's position, or now without one
	StateFile string    // "": one file per key in the user's configuration directory
	JSON      bool      // print JSON, one object a line, instead of text
	Out       io.Writer
}

// Check fills in the defaults of o. Its error lists every fault, one a line, and quotes no setting
// that may hold a key.
func (o *Options) Check() error {
	var faults []error
	add := func(name string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %w", name, err))
		}
	}

	add("CHECKOUT_API_KEY", checkKey(o.APIKey))
	u, err := parseAddress(o.APIURL)
	if err == nil && u.RawQuery != "" {
		err = errors.New("must have no query")
	}
	if err == nil && u.Scheme == "http" && !o.PlainHTTP && !loopback(u.Hostname()) {
		err = errors.New("must be https://: over http:// the key would travel in the clear to another computer; " +
			"--plain-http allows that, for a private network such as containers")
	}

	add("--api (CHECKOUT_API_URL)", err)
	o.APIURL = strings.TrimRight(o.APIURL, "/")
	if o.ForwardTo == "" {
		add("--forward-to", errors.New("is missing: the local server's URL, such as http://127.0.0.1:3000/webhook"))
	} else {
		_, err := parseAddress(o.ForwardTo)
		add("--forward-to", err)
	}
	if o.StateFile == "" && len(faults) == 0 {
		o.StateFile, err = defaultStateFile(o.APIKey)
		add("--state", err)
	}
	return errors.Join(faults...)
}

var keyShape = regexp.MustCompile(`^sk_test_[0-9a-f]{64}$`)

func checkKey(key string) error {
	if strings.HasPrefix(key, "sk_live_") {
		return errors.New(
			"is a live key: listen forwards test-mode events only, and a live key has no place on a developer's computer; use one that begins with sk_test_",
		)
	}
	if key == "" {
		return errors.New(
			"is not set: export a test key, sk_test_…; there is no flag for it, which would leave it in the shell's history",
		)
	}
	if !keyShape.MatchString(key) {
		return errors.New("does not look like a key, which is sk_test_ and 64 hexadecimal digits without quotes or spaces")
	}
	return nil
}

func parseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return nil, errors.New("must be a URL that begins with http:// or https:// and a host")
	case u.User != nil:
		return nil, errors.New("must have no user or password in it")
	case u.Fragment != "":
		return nil, errors.New("must have no fragment")
	}
	if port := u.Port(); port != "" {
		if _, err := net.LookupPort("tcp", port); err != nil {
			return nil, errors.New("must have a port from 1 to 65535")
		}
	}
	return u, nil
}

// loopback reports whether host is certainly this computer.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// defaultStateFile returns a path whose name is a hash of the key, cut to 64 bits. The hash does
// not reveal the key, which has 256 random bits.
func defaultStateFile(key string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", errors.New("is needed: this user has no configuration directory")
	}
	sum := sha256.Sum256([]byte("checkout listen " + key))
	return filepath.Join(dir, "checkout", "listen", hex.EncodeToString(sum[:8])+".json"), nil
}

// ParseEvents reads event types separated by commas. It returns nil, which means every type, for ""
// and "*". Its error proposes the nearest known type.
func ParseEvents(text string) ([]webhook.EventType, error) {
	if text == "" || text == "*" {
		return nil, nil
	}
	var types []webhook.EventType
	for name := range strings.SplitSeq(text, ",") {
		typ := webhook.EventType(strings.TrimSpace(name))
		if !typ.Valid() {
			return nil, fmt.Errorf("has an unknown event type %.40q%s", string(typ), hint(string(typ)))
		}
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return types, nil
}

// hint names the event type nearest to name, or all types when none is near.
func hint(name string) string {
	best, least := "", 5 // with more differences it is another word
	for _, typ := range webhook.EventTypes {
		if d := levenshtein.ComputeDistance(strings.ToLower(name), string(typ)); d < least {
			best, least = string(typ), d
		}
	}
	if best == "" {
		return "; known are " + listed(webhook.EventTypes)
	}
	return "; did you mean " + best + "?"
}

func listed(types []webhook.EventType) string {
	names := make([]string, 0, len(types))
	for _, typ := range types {
		names = append(names, string(typ))
	}
	return strings.Join(names, ", ")
}

// ParseSince reads a time, or a duration before now; "" gives the zero time.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return time.Time{}, errors.New("must be longer than 0s")
		}
		return now.Add(-d).UTC(), nil
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil || t.Unix() < 0 {
		return time.Time{}, errors.New(
			"must be a duration such as 10m or 36h, or an RFC 3339 time such as 2026-01-31T09:30:00Z",
		)
	}
	if t.After(now) {
		return time.Time{}, errors.New("is in the future")
	}
	return t.UTC(), nil
}
