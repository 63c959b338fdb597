package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// SignatureHeader is the header that signs a delivery.
const SignatureHeader = "X-Service-Signature"

// MaxBody is far more bytes than an event has. Read no more of a body: nobody can fill the memory.
const MaxBody = 1 << 20

// maxDepth is far more levels than an event has.
const maxDepth = 100

// Errors of ConstructEvent. Answer both with 400.
var (
	ErrSignature = errors.New("the signature does not fit")
	ErrNoEvent   = errors.New("this is not an event")
)

// Received is an event that a delivery brought. The same event may come again: ID tells.
type Received struct {
	ID   EventId
	Type EventName
	// Event is a CheckoutCompleted, CheckoutFailed, PayoutSent, PayoutFailed, PayoutReduced, MerchantUpdated,
	// RefundSucceeded, RefundFailed, DisputeOpened or DisputeClosed. It is nil for a type that this version does not
	// know: answer 200 to it, too.
	Event any
}

// ConstructEvent returns the event of a delivery after it has verified the signature with the
// webhook's secret, "whsec_" included. The body must be the raw bytes as they arrived. The errors are
// ErrSignature and ErrNoEvent.
func ConstructEvent(body []byte, header http.Header, secret string) (Received, error) {
	return constructEvent(body, header, secret, time.Now())
}

func constructEvent(body []byte, header http.Header, secret string, now time.Time) (Received, error) {
	// Two headers become one with two timestamps, which is refused.
	signature := strings.Join(header.Values(SignatureHeader), ",")
	if len(body) > MaxBody || !verify(secret, signature, body, now) {
		return Received{}, ErrSignature
	}
	return ParseStored(body)
}

// verify reports whether the header signs the body, which must be the raw bytes as they arrived:
// JSON that was parsed and written again has other bytes.
func verify(secret, header string, body []byte, now time.Time) bool {
	var times, signatures []string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			times = append(times, value)
		case "v1": // two while a rotated secret still signs
			signatures = append(signatures, value)
		}
	}
	if len(times) != 1 {
		return false
	}
	seconds, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil || len(times[0]) > 12 || strings.Trim(times[0], "0123456789") != "" { // a sign would be taken
		return false
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false // somebody may be sending again what they have seen
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(times[0] + "."))
	mac.Write(body)
	want := []byte(hex.EncodeToString(mac.Sum(nil)))
	return slices.ContainsFunc(signatures, func(signature string) bool {
		// In constant time: with == the time it takes tells how many digits are right, and so, digit by digit, all of them.
		return hmac.Equal([]byte(signature), want)
	})
}

// eventID is what an id may look like. It may become the name of a file or of a key.
var eventID = regexp.MustCompile(`^evt_[0-9A-Za-z_]{1,64}$`)

// ParseStored returns the event of a body that ConstructEvent took before, such as one that you stored.
// It verifies nothing. The error is ErrNoEvent.
func ParseStored(body []byte) (Received, error) {
	var got Received
	var members map[string]json.RawMessage // a struct would take "ID" for "id" too, and a null for no member
	if !utf8.Valid(body) || !shallow(body) || json.Unmarshal(body, &members) != nil {
		return got, ErrNoEvent
	}
	if json.Unmarshal(members["id"], &got.ID) != nil || !eventID.MatchString(got.ID) {
		return got, ErrNoEvent
	}
	if json.Unmarshal(members["type"], &got.Type) != nil {
		got.Type = "" // there is none, or it is no string
	}
	if decode := decoders[got.Type]; decode != nil {
		if event, err := decode(body); err == nil {
			got.Event = event
		}
	}
	return got, nil
}

var decoders = map[EventName]func(body []byte) (event any, err error){
	EventNameCheckoutCompleted: decode[CheckoutCompleted],
	EventNameCheckoutFailed:    decode[CheckoutFailed],
	EventNamePayoutSent:        decode[PayoutSent],
	EventNamePayoutFailed:      decode[PayoutFailed],
	EventNameMerchantUpdated:   decode[MerchantUpdated],
	EventNameRefundSucceeded:   decode[RefundSucceeded],
	EventNameRefundFailed:      decode[RefundFailed],
	EventNameDisputeOpened:     decode[DisputeOpened],
	EventNameDisputeClosed:     decode[DisputeClosed],
	EventNamePayoutReduced:     decode[PayoutReduced],
}

func decode[T any](body []byte) (any, error) {
	var event T
	err := json.Unmarshal(body, &event)
	return event, err
}

// shallow reports whether JSON is at most maxDepth levels deep. Parsers have limits of their own, each another.
func shallow(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			if depth++; depth > maxDepth {
				return false
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return true
}
