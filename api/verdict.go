package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// verdict explains a signature. A field that does not apply is null.
type verdict struct {
	Valid bool `json:"valid"`
	finding
	// SignedBy is the id of a registration, or of the session whose webhook_secret signed.
	SignedBy        *string      `json:"signed_by"`
	Secret          *secretState `json:"secret"`
	SecretExpiresAt *string      `json:"secret_expires_at"` // for a previous secret
	AgeSeconds      *int64       `json:"age_seconds"`       // of the timestamp; negative in the future
	FirstDifference *int         `json:"first_difference"`  // byte of the body, from 0
	// Null without a computed signature or with an unreadable header.
	Computed *computedVerdict `json:"computed"`
}

// finding is the result of an explanation. A nil problem means that all is well.
type finding struct {
	Problem *string `json:"problem"`
	Message string  `json:"message"`
}

// newProblem names a problem by its code; see the OpenAPI document.
func newProblem(p, format string, args ...any) finding {
	return finding{&p, fmt.Sprintf(format, args...)}
}

// secretState is the state of the secret that signed.
type secretState string

const (
	secretCurrent  secretState = "current"
	secretPrevious secretState = "previous" // still signs beside the current one
	secretExpired  secretState = "expired"  // rotated away
)

// signingSecret is a secret that may have made a signature.
type signingSecret struct {
	storage.WebhookKeys
	previous bool
}

func (s signingSecret) key() []byte {
	if s.previous {
		return s.Previous
	}
	return s.Current
}

func (s signingSecret) state(now time.Time) secretState {
	switch {
	case !s.previous:
		return secretCurrent
	case s.Until != nil && now.Before(*s.Until):
		return secretPrevious
	}
	return secretExpired
}

// name returns the value of signed_by.
func (s signingSecret) name() string { return cmp.Or(s.SessionID, s.EndpointID) }

func (s signingSecret) String() string {
	if s.SessionID != "" {
		return "the webhook_secret of session " + s.SessionID
	}
	return "the secret of " + s.EndpointID
}

// candidateSecrets returns all secrets that may have signed. Secrets of the expected registration come
// first.
func (v verification) candidateSecrets() []signingSecret {
	var first, rest []signingSecret
	for _, k := range v.Keys {
		both := []signingSecret{{k, false}}
		if k.Previous != nil {
			both = append(both, signingSecret{k, true})
		}
		if k.EndpointID == v.EndpointID {
			first = append(first, both...)
		} else {
			rest = append(rest, both...)
		}
	}
	return append(first, rest...)
}

// findSecret returns the secret that made sig for body, false when none fits.
func (v verification) findSecret(sig webhook.Signature, body string) (signingSecret, bool) {
	for _, s := range v.candidateSecrets() {
		if sig.Fits(s.key(), []byte(body)) {
			return s, true
		}
	}
	return signingSecret{}, false
}

// explain decides whether a receiver must accept the delivery, with the reason if not.
func (v verification) explain() verdict {
	sig, err := webhook.ParseSignature(v.Header)
	if err != nil {
		return v.headerVerdict(err)
	}
	d := v.signatureVerdict(sig)
	age := v.age(sig)
	d.AgeSeconds = &age
	if v.Computed != "" {
		told := v.explainComputed(sig)
		d.Computed = &computedVerdict{Right: told.Problem == nil, finding: told}
	}
	return d
}

func (v verification) headerVerdict(err error) verdict {
	var fault *webhook.SignatureHeaderError
	message := "The header is malformed."
	switch {
	case strings.HasPrefix(strings.ToLower(v.Header), strings.ToLower(webhook.SignatureHeader)+":"):
		message += " It must be the value of " + webhook.SignatureHeader + " without that name."
	case errors.As(err, &fault):
		message += " " + fault.Fault
	}
	return verdict{finding: newProblem("malformed_header", "%s", message)}
}

// signatureVerdict looks for a secret that fits the body in the request. Then it looks for one that
// fits the body that the service sent.
func (v verification) signatureVerdict(sig webhook.Signature) verdict {
	if s, ok := v.findSecret(sig, v.Body); ok {
		told := v.judgeSignature(s, sig)
		return v.withSecret(s, verdict{Valid: told.Problem == nil, finding: told})
	}

	how, at := difference(v.Stored, v.Body)
	if v.Stored != "" {
		if s, ok := v.findSecret(sig, v.Stored); ok {
			how.Message += " The signature matches the body that we sent."
			return v.withSecret(s, verdict{finding: how, FirstDifference: at})
		}
	}

	switch {
	case how.Problem != nil && at == nil:
		return verdict{finding: how}
	case v.Stored == "":
		return verdict{finding: newProblem("wrong_secret_or_changed_body",
			"Wrong secret or changed body: none of your secrets matches, and none of your events has the body's id, "+
				"so the bodies cannot be compared. Does your API key have the event's mode?")}
	case how.Problem == nil:
		return verdict{finding: newProblem("wrong_secret",
			"The body is what we sent, but none of your secrets matches: the header was changed, or the secret is "+
				"another merchant's.")}
	}
	return verdict{FirstDifference: at, finding: newProblem("wrong_secret",
		"None of your secrets matches this body or the one that we sent. Also: %s", how.Message)}
}

// withSecret adds the signer to d.
func (v verification) withSecret(s signingSecret, d verdict) verdict {
	name, state := s.name(), s.state(v.Now)
	d.SignedBy, d.Secret = &name, &state
	if s.previous {
		d.SecretExpiresAt = checkout.FormatOptionalTime(s.Until)
	}
	return d
}

// judgeSignature decides whether a receiver must accept a signature that fits.
func (v verification) judgeSignature(s signingSecret, sig webhook.Signature) finding {
	age := v.age(sig)
	const tolerance = int64(webhook.SignatureTolerance / time.Second)
	switch {
	case v.EndpointID != "" && s.EndpointID != v.EndpointID:
		return newProblem("other_registration",
			"The signature is right, but it was made with %s, not with the secret of %s.", s, v.EndpointID)
	case s.Deleted:
		return newProblem("deleted_registration", "The signature is right, but it was made with %s, which was deleted.", s)
	case s.state(v.Now) == secretExpired:
		return newProblem("expired_secret",
			"The signature is right, but it was made with the previous secret of %s, which has expired.", s.name())
	case age > tolerance:
		return newProblem("timestamp_too_old",
			"The signature is right, but its timestamp is %d s old; receivers refuse more than %d s. "+
				"Is the receiver's clock right, or was the delivery kept before it was checked?", age, tolerance)
	case age < -tolerance:
		return newProblem("timestamp_in_future",
			"The signature is right, but its timestamp is %d s in the future; receivers refuse more than %d s.",
			-age, tolerance)
	}
	return finding{Message: fmt.Sprintf("The signature is right: it was made with %s (%s).", s, s.state(v.Now))}
}

// age returns the seconds since the signature was made, negative when its timestamp is in the
// future.
func (v verification) age(sig webhook.Signature) int64 { return v.Now.Unix() - sig.Timestamp }

// difference describes how got differs from sent, which is "" when it is unknown. at is the first byte that differs,
// nil when there is nothing to compare.
func difference(sent, got string) (how finding, at *int) {
	switch {
	case got == "":
		return newProblem("body_empty", "The body is empty: something else read it first."), nil
	case strings.HasPrefix(got, "[object "):
		return newProblem("body_not_raw",
			"The body is a parsed object converted to text; sign the raw bytes of the request."), nil
	case sent == "" || got == sent:
		return finding{}, nil
	}
	first := firstDifference(sent, got)
	return change(sent, got, first), &first
}

// change names the change from sent to got, which begins at the byte first.
func change(sent, got string, first int) finding {
	withoutCR := strings.ReplaceAll(got, "\r\n", "\n")
	switch {
	case strings.TrimPrefix(got, "\ufeff") == sent:
		return newProblem("body_byte_order_mark", "The body begins with a byte order mark that we did not send.")
	case withoutCR != got && strings.TrimSuffix(withoutCR, "\n") == sent:
		return newProblem("body_crlf", "Line breaks in the body were converted to CRLF, or one was added.")
	case strings.TrimSuffix(got, "\n") == sent:
		return newProblem("body_trailing_newline", "The body ends with a line break that we did not send.")
	case strings.TrimSpace(got) == sent:
		return newProblem("body_white_space", "There is white space around the body that we did not send.")
	case strings.HasPrefix(sent, got):
		return newProblem("body_truncated", "The body is cut off after %d of %d bytes.", len(got), len(sent))
	}

	var was, is any
	if json.Unmarshal([]byte(got), &is) != nil {
		return newProblem("body_not_json", "The body was changed from byte %d on and is no longer JSON.", first)
	}
	if text, ok := is.(string); ok && text == sent {
		return newProblem("body_reencoded",
			"The body was encoded a second time: it is a JSON string that holds the one we sent.")
	}
	if json.Unmarshal([]byte(sent), &was) == nil && reflect.DeepEqual(was, is) {
		return newProblem("body_reencoded",
			"The body was parsed and encoded again: it has the same content in different bytes, from byte %d on. "+
				"Sign the raw bytes of the request.", first)
	}
	return newProblem("body_changed", "The body was changed: its content differs from byte %d on.", first)
}

// firstDifference returns the index of the first byte that differs.
func firstDifference(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
