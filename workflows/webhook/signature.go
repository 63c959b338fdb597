package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader carries the signature of a delivery. Source: interface
// document, "Signature".
const SignatureHeader = "X-Service-Signature"

// SignatureTolerance is the oldest timestamp a receiver accepts. Source:
// interface document, "Signature".
const SignatureTolerance = 5 * time.Minute

// NewSecret returns a signing secret: "whsec_" and 64 hex digits. It is shown
// once; what is kept is SecretDigest of it.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "whsec_" + hex.EncodeToString(b[:])
}

// MaxRotationOverlap is how long a rotated secret may go on signing beside the
// new one.
const MaxRotationOverlap = 72 * time.Hour

// SecretDigest returns the SHA-256 of a secret. HMAC hashes a key longer than
// its 64-byte block first (RFC 2104), and a secret has 70 bytes, so the digest
// signs exactly as the secret does: it is stored hashed and still signs.
func SecretDigest(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Sign returns the value of SignatureHeader for body sent at t, keyed with a
// secret or its digest: lowercase hex of HMAC-SHA256 over "<t>.<body>". After a
// rotation the previous key signs too, in a v1 of its own.
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

// Verify checks a delivery the way a receiver must: header, constant-time
// comparison with any v1, then the age of the timestamp. It returns
// ErrSignatureHeader, ErrSignatureMismatch or ErrSignatureTime.
func Verify(secret, header string, body []byte, now time.Time) error {
	ts, candidates, err := parseSignature(header)
	if err != nil {
		return err
	}
	want := signature([]byte(secret), strconv.FormatInt(ts, 10), body)
	matched := false
	for _, c := range candidates {
		matched = hmac.Equal(c, want) || matched
	}
	if !matched {
		return ErrSignatureMismatch
	}
	if age := now.Sub(time.Unix(ts, 0)).Abs(); age > SignatureTolerance {
		return ErrSignatureTime
	}
	return nil
}

// parseSignature reads "t=<unix>,v1=<hex>[,v1=<hex>…]". Unknown schemes are
// passed over so that a new one can be added; a second t is an attack.
func parseSignature(header string) (ts int64, candidates [][]byte, err error) {
	seen := false
	for part := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return 0, nil, ErrSignatureHeader
		}
		switch name {
		case "t":
			if seen {
				return 0, nil, fmt.Errorf("%w: two timestamps", ErrSignatureHeader)
			}
			seen = true
			ts, err = strconv.ParseInt(value, 10, 64)
			if err != nil || ts < 0 || strconv.FormatInt(ts, 10) != value {
				return 0, nil, fmt.Errorf("%w: timestamp", ErrSignatureHeader)
			}
		case "v1":
			sig, err := hex.DecodeString(value)
			if err != nil || len(sig) != sha256.Size || strings.ToLower(value) != value {
				return 0, nil, fmt.Errorf("%w: v1", ErrSignatureHeader)
			}
			candidates = append(candidates, sig)
		}
	}
	if !seen || len(candidates) == 0 {
		return 0, nil, fmt.Errorf("%w: t and v1 are needed", ErrSignatureHeader)
	}
	return ts, candidates, nil
}
