package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/checkout/workflows/checkout"
)

// EndpointStatus says whether an endpoint receives deliveries.
type EndpointStatus string

// States of an endpoint.
const (
	EndpointEnabled  EndpointStatus = "enabled"
	EndpointDisabled EndpointStatus = "disabled"
)

// EndpointStatuses lists every state of an endpoint.
var EndpointStatuses = []EndpointStatus{EndpointEnabled, EndpointDisabled}

// MaxEndpoints is how many endpoints a merchant may have per mode. It keeps the children of one
// workflow far below Temporal's limit of 2,000.
const MaxEndpoints = 50

// MaxLimit is the highest MaxInFlight and RateLimit of an endpoint.
const MaxLimit = 1000

// Endpoint is a webhook registration of the interface document.
type Endpoint struct {
	checkout.Ref

	URL         string
	Events      []EventType // as asked for: names, or AllEvents alone
	Description *string
	Status      EndpointStatus
	CreatedAt   time.Time
	// MaxInFlight is how many attempts may be under way at a time, RateLimit how many may begin in a second.
	// nil is the default.
	MaxInFlight, RateLimit *int
	// RotatingUntil is when the previous secret stops signing. It is nil when only one secret signs.
	RotatingUntil *time.Time
	// FailingSince is when the first of its failed first attempts ended. It is nil unless all of them failed for
	// so long that the registration is marked.
	FailingSince *time.Time

	Secret string `db:"-"` // set only in the result of a creation or rotation; never stored
}

// WantsAll reports whether e gets every event type, also those to come.
func (e Endpoint) WantsAll() bool { return slices.Contains(e.Events, AllEvents) }

// EventTypes returns the event types that e gets, by name.
func (e Endpoint) EventTypes() []EventType {
	if e.WantsAll() {
		return EventTypes
	}
	return e.Events
}

// MarshalJSON writes the registration. Only the answers to a creation and to a rotation hold the secret. Source:
// api/interface.md, "Webhook registration".
func (e Endpoint) MarshalJSON() ([]byte, error) {
	return checkout.EncodeJSON(struct {
		ID          string         `json:"id"`
		URL         string         `json:"url"`
		Events      []EventType    `json:"events"`
		Description *string        `json:"description"`
		MaxInFlight *int           `json:"max_in_flight"`
		RateLimit   *int           `json:"rate_limit"`
		Status      EndpointStatus `json:"status"`
		Livemode    bool           `json:"livemode"`
		CreatedAt   string         `json:"created_at"`
		Rotating    *string        `json:"previous_secret_expires_at"`
		Failing     *string        `json:"failing_since"`
		Secret      string         `json:"secret,omitempty"`
	}{
		ID: e.ID, URL: e.URL, Events: e.Events, Description: e.Description,
		MaxInFlight: e.MaxInFlight, RateLimit: e.RateLimit, Status: e.Status,
		Livemode: e.Mode.Live(), CreatedAt: checkout.FormatTime(e.CreatedAt),
		Rotating: checkout.FormatOptionalTime(e.RotatingUntil),
		Failing:  checkout.FormatOptionalTime(e.FailingSince), Secret: e.Secret,
	})
}

// maxDescription is the longest description, in characters.
const maxDescription = 255

// ErrDescription is the error of CheckDescription. Merchants see this text.
var ErrDescription = fmt.Errorf("must have at most %d characters and no control characters", maxDescription)

// CheckDescription checks the description of an endpoint. It returns ErrDescription.
func CheckDescription(text string) error {
	if utf8.RuneCountInString(text) > maxDescription || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, unicode.IsControl) {
		return ErrDescription
	}
	return nil
}

// Errors of ParseURL. Merchants see these texts.
var (
	ErrURLSyntax   = errors.New("must be an absolute http or https URL")
	ErrURLHost     = errors.New("must have a host name or an IP address in its usual spelling")
	ErrURLLength   = errors.New("must be at most 2048 characters")
	ErrURLUserinfo = errors.New("must not contain a user name or password")
	ErrURLHTTPS    = errors.New("must be https in live mode")
)

const maxURLLength = 2048

// ParseURL checks the URL of a redirect or a webhook: absolute http or https, a host that can exist, at most 2,048
// characters, no userinfo, no control characters or backslashes, a port from 1 to 65535, https in
// live mode. It does not check which address the host resolves to; the address guard does.
func ParseURL(raw string, mode checkout.Mode) (*url.URL, error) {
	if len(raw) > maxURLLength {
		return nil, ErrURLLength
	}
	if strings.ContainsFunc(raw, notInURL) {
		return nil, ErrURLSyntax
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, ErrURLSyntax
	}
	if u.User != nil {
		return nil, ErrURLUserinfo
	}
	if !validPort(u) {
		return nil, ErrURLSyntax
	}
	if !PossibleHost(strings.TrimSuffix(u.Hostname(), ".")) {
		return nil, ErrURLHost
	}
	if mode.Live() && u.Scheme != "https" {
		return nil, ErrURLHTTPS
	}
	return u, nil
}

// Longest names in DNS, in bytes. Source: RFC 1035, section 2.3.4.
const (
	maxLabel = 63
	maxName  = 253
)

// PossibleHost reports whether a host, without a final dot, is an IP address in its usual spelling, or a name that DNS
// can have. Its last label is no number, such as 0x7f or 2130706433: some programs read it as an address. It accepts
// what is not ASCII: the address guard knows the plain spelling and asks again.
func PossibleHost(host string) bool {
	_, err := netip.ParseAddr(host)
	if err == nil || strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true
	}
	labels := strings.Split(host, ".")
	last := strings.ToLower(labels[len(labels)-1])
	_, err = strconv.ParseUint(last, 0, 64)
	return err != nil && strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x") &&
		len(host) <= maxName &&
		!slices.ContainsFunc(labels, func(label string) bool { return label == "" || len(label) > maxLabel })
}

// notInURL reports whether r is a space, a control character, a backslash or invalid UTF-8.
func notInURL(r rune) bool {
	return r <= ' ' || r == 0x7f || r == '\\' || (r >= 0x80 && r < 0xa0) || r == 0xfffd
}

// validPort refuses "host:" and ports that cannot be dialed.
func validPort(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	return len(port) <= 5 && port[0] != '0' && (len(port) < 5 || port <= "65535")
}
