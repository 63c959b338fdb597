package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader is the header with the signature of a delivery. Source: api/interface.md, "Signature".
const SignatureHeader = "X-Service-Signature"

// RequestHeaders returns the headers of an attempt, without the signature and the transport's own headers. The first
// attempt is 1. Source: api/decisions/deliveries.md, "delivery headers".
func RequestHeaders(deliveryID, eventID string, typ EventType, attempt int) map[string]string {
	return map[string]string{
		"Content-Type":          "application/json",
		"User-Agent":            UserAgent,
		"X-Service-Event-Id":    eventID,
		"X-Service-Event-Type":  string(typ),
		"X-Service-Delivery-Id": deliveryID,
		"X-Service-Attempt":     strconv.Itoa(attempt),
	}
}

// UserAgent is the User-Agent of every delivery.
const UserAgent = "Checkout-Webhooks/1.0"

// SignatureTolerance is the oldest timestamp a receiver accepts. Source: api/interface.md, "Signature".
const SignatureTolerance = 5 * time.Minute

// NewSecret returns a signing secret: "whsec_" and 64 hex digits. The service shows it once and
// stores only its SecretDigest.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "whsec_" + hex.EncodeToString(b[:])
}

// SeededSecret is NewSecret from a seed: the same seed makes the same secret.
func SeededSecret(seed []byte) string {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte("webhook secret"))
	return "whsec_" + hex.EncodeToString(mac.Sum(nil))
}

// How long a rotated secret also signs: by default, and at most.
const (
	DefaultRotationOverlap = 24 * time.Hour
	MaxRotationOverlap     = 72 * time.Hour
)

// SecretDigest returns the SHA-256 of a secret. HMAC first hashes a key that is longer than its
// 64-byte block (RFC 2104). A secret has 70 bytes, so the digest makes the same signatures as the
// secret. So the service stores only the hash and can still sign.
func SecretDigest(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Sign returns the value of SignatureHeader for body sent at t: lowercase hex of HMAC-SHA256 over
// "<t>.<body>". The key is a secret or its digest. Each previous key signs too, in a v1 of its own.
func Sign(key []byte, t time.Time, body []byte, previous ...[]byte) string {
	ts := strconv.FormatInt(t.Unix(), 10)
	header := "t=" + ts + ",v1=" + hex.EncodeToString(signature(key, ts, body))
	for _, key := range previous {
		header += ",v1=" + hex.EncodeToString(signature(key, ts, body))
	}
	return header
}

func signature(key []byte, ts string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(ts))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// Errors of Verify.
var (
	ErrSignatureHeader   = errors.New("signature header is malformed")
	ErrSignatureMismatch = errors.New("signature does not match")
	ErrSignatureTime     = errors.New("timestamp is more than five minutes away")
)

// A SignatureHeaderError is an ErrSignatureHeader that says what is wrong.
type SignatureHeaderError struct {
	Fault string // a sentence for the author of the receiver
}

func (e *SignatureHeaderError) Error() string { return ErrSignatureHeader.Error() + ": " + e.Fault }

// Unwrap makes errors.Is(err, ErrSignatureHeader) true.
func (e *SignatureHeaderError) Unwrap() error { return ErrSignatureHeader }

func headerFault(fault string) error { return &SignatureHeaderError{fault} }

// Signature is the parsed value of a SignatureHeader.
type Signature struct {
	Timestamp  int64    // Unix seconds
	Candidates [][]byte // the value of each v1; at least one
}

// Fits reports, in constant time, whether a candidate is the signature of body. The key is a secret or its digest.
func (s Signature) Fits(key, body []byte) bool {
	want := signature(key, strconv.FormatInt(s.Timestamp, 10), body)
	matched := false
	for _, c := range s.Candidates {
		matched = hmac.Equal(c, want) || matched
	}
	return matched
}

// Verify checks a delivery as a receiver must: the header, then any v1 in constant time, then the
// age of the timestamp. It returns ErrSignatureHeader, ErrSignatureMismatch and ErrSignatureTime.
func Verify(secret, header string, body []byte, now time.Time) error {
	s, err := ParseSignature(header)
	if err != nil {
		return err
	}
	if !s.Fits([]byte(secret), body) {
		return ErrSignatureMismatch
	}
	if age := now.Sub(time.Unix(s.Timestamp, 0)).Abs(); age > SignatureTolerance {
		return ErrSignatureTime
	}
	return nil
}

// ParseSignature reads "t=<unix>,v1=<hex>[,v1=<hex>…]". It skips unknown schemes, so that a new scheme can be added. It
// refuses a second t, because that is an attack. It returns a SignatureHeaderError.
func ParseSignature(header string) (Signature, error) {
	var (
		s    Signature
		seen bool
		err  error
	)
	switch {
	case header == "":
		return s, headerFault("It is empty.")
	case strings.ContainsAny(header, " \t\r\n"):
		return s, headerFault("It contains a space or a line break.")
	}

	for part := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			return s, headerFault("It must be name=value pairs joined by commas.")
		case name == "t" && seen:
			return s, headerFault("It has two timestamps t: this is an attack, or two headers were joined.")
		case name == "t":
			seen = true
			if s.Timestamp, err = parseTimestamp(value); err != nil {
				return s, err
			}
		case name == "v1":
			candidate, err := parseCandidate(value)
			if err != nil {
				return s, err
			}
			s.Candidates = append(s.Candidates, candidate)
		}
	}
	switch {
	case !seen:
		return s, headerFault("It has no timestamp t.")
	case len(s.Candidates) == 0:
		return s, headerFault("It has no signature v1.")
	}
	return s, nil
}

func parseTimestamp(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != value {
		return 0, headerFault("The timestamp t must be Unix seconds, in digits only.")
	}
	return n, nil
}

func parseCandidate(value string) ([]byte, error) {
	sig, err := hex.DecodeString(value)
	switch {
	case len(value) != 2*sha256.Size:
		return nil, headerFault("The signature v1 must have 64 hexadecimal digits; it has " +
			strconv.Itoa(len(value)) + " characters.")
	case err != nil:
		return nil, headerFault("The signature v1 must be hexadecimal.")
	case strings.ToLower(value) != value:
		return nil, headerFault("The signature v1 must be in lower case.")
	}
	return sig, nil
}
