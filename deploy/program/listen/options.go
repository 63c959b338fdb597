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
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Options say which events listen forwards, and to which server.
type Options struct {
	APIKey    string    // a key of test mode
	APIURL    string    // the REST API's URL
	PlainHTTP bool      // the key may go unencrypted to another computer
	ForwardTo string    // the local server's URL
	Events    []string  // types of events; empty: every type
	Since     time.Time // where to begin; zero: at the state file's position, or now without one
	StateFile string    // "": one file per key in the user's configuration directory
	JSON      bool      // print JSON, one object a line, instead of text
	Out       io.Writer
}

var keyShape = regexp.MustCompile(`^sk_test_[0-9a-f]{64}$`)

// Check fills in the defaults of o. Its error is about the first fault, and quotes no setting that may hold a key.
func (o *Options) Check() error {
	o.APIURL = strings.TrimRight(o.APIURL, "/")
	api, to := parseAddress(o.APIURL), parseAddress(o.ForwardTo)
	switch {
	case !keyShape.MatchString(o.APIKey): // a live key has no place on a developer's computer
		return errors.New("CHECKOUT_API_KEY must be a test key: sk_test_ and 64 hexadecimal digits")
	case api == nil:
		return errors.New("--api (CHECKOUT_API_URL) must be a URL such as https://api.example.com")
	case api.Scheme == "http" && !o.PlainHTTP && !loopback(api.Hostname()):
		return errors.New("--api (CHECKOUT_API_URL) must be https://: over http:// the key would travel unencrypted to " +
			"another computer; --plain-http allows that, for a private network such as containers")
	case to == nil:
		return errors.New("--forward-to must be the local server's URL, such as http://127.0.0.1:3000/webhook")
	}
	for _, name := range o.Events {
		if !webhook.EventType(name).Valid() {
			return fmt.Errorf("--events has an unknown event type %.40q; known are %v", name, webhook.EventTypes)
		}
	}
	if o.StateFile == "" {
		return o.defaultStateFile()
	}
	return nil
}

// parseAddress returns nil when text is not the URL of a server. A user and a password would not be sent.
func parseAddress(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return nil
	}
	return u
}

func loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// defaultStateFile sets a path whose name is a hash of the key, cut to 64 bits. The hash does not
// reveal the key, which has 256 random bits.
func (o *Options) defaultStateFile() error {
	dir, err := os.UserConfigDir()
	if err != nil {
		return errors.New("--state is needed: this user has no configuration directory")
	}
	sum := sha256.Sum256([]byte("checkout listen " + o.APIKey))
	o.StateFile = filepath.Join(dir, "checkout", "listen", hex.EncodeToString(sum[:8])+".json")
	return nil
}

// ParseSince reads a time, or a duration before now.
func ParseSince(text string, now time.Time) (time.Time, error) {
	t, err := checkout.ParseTime(text)
	if d, fault := time.ParseDuration(text); fault == nil {
		t, err = now.Add(-d).UTC(), nil
	}
	if err != nil || !t.Before(now) {
		return time.Time{}, errors.New(
			"must be a duration such as 10m or 36h, or an RFC 3339 time such as 2026-01-31T09:30:00Z, in the past")
	}
	return t, nil
}
