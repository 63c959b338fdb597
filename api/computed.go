package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"example.com/checkout/workflows/webhook"
)

// computedVerdict explains the signature that a merchant's own code computed.
type computedVerdict struct {
	Right bool `json:"right"`
	finding
}

// explainComputed finds the known mistake that leads to v.Computed. It never returns the right
// signature.
func (v verification) explainComputed(sig webhook.Signature) finding {
	value, form := readComputed(v.Computed)
	if value == nil {
		return form
	}
	got, found := v.findMistake(sig, value)
	switch {
	case !found:
		return newProblem("unknown",
			"It matches no known signature of this delivery. The key must be the whole secret as text, including "+
				"whsec_; the signed text must be the timestamp t of the header, a dot and the raw body.")
	case got.Problem == nil && form.Problem != nil:
		return form
	}
	return got
}

// readComputed decodes text to 32 bytes. form is the fault of its form, if any. The bytes are nil when
// text does not encode 32 bytes.
func readComputed(text string) (value []byte, form finding) {
	for _, prefix := range []string{"v1=", "sha256="} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			text, form = rest, newProblem("prefixed",
				"It is right except for the prefix %s; compare the digits only.", prefix)
		}
	}

	value, err := hex.DecodeString(text)
	if err == nil && len(value) == sha256.Size {
		if strings.ToLower(text) != text {
			form = newProblem("upper_case", "It is right but in upper case; v1 is lower case.")
		}
		return value, form
	}
	if err == nil && (len(value) == 16 || len(value) == 20 || len(value) == 64) {
		return nil, newProblem("other_hash",
			"It has %d hexadecimal digits; HMAC-SHA256 has 64. Was another hash used?", len(text))
	}

	unpadded := strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if value, err := encoding.DecodeString(unpadded); err == nil && len(value) == sha256.Size {
			return value, newProblem("base64", "It is right but in base64; v1 is lower-case hexadecimal.")
		}
	}
	return nil, newProblem("not_a_signature", "It must be 64 hexadecimal digits.")
}

// candidateText is a text that the merchant's code may have signed, and the mistake in it.
type candidateText struct {
	text string
	finding
}

// candidateTexts returns the right text and the texts of the known mistakes.
func (v verification) candidateTexts(sig webhook.Signature) []candidateText {
	t := strconv.FormatInt(sig.Timestamp, 10)
	bodies := []string{v.Body}
	if v.Stored != "" && v.Stored != v.Body {
		bodies = append(bodies, v.Stored)
	}
	var texts []candidateText
	for _, body := range bodies {
		texts = append(
			texts,
			candidateText{text: t + "." + body},
			candidateText{body, newProblem("without_timestamp",
				"Only the body was signed; sign the timestamp t of the header, a dot and the raw body.")},
			candidateText{t + body, newProblem("without_dot", "The dot between the timestamp and the body is missing.")},
			candidateText{t + "000." + body, newProblem("timestamp_in_milliseconds",
				"The timestamp was in milliseconds; use t of the header unchanged.")},
		)
	}
	for _, s := range reencodings(bodies[len(bodies)-1]) {
		texts = append(texts, candidateText{t + "." + s.body, newProblem("body_reencoded", "The body was parsed and encoded "+
			"again before it was signed (as %s does); sign the raw bytes of the request.", s.name)})
	}
	return texts
}

// findMistake finds the text and the secret that value was computed from. It returns false when none
// fits.
func (v verification) findMistake(sig webhook.Signature, value []byte) (finding, bool) {
	secrets := v.candidateSecrets()
	for _, text := range v.candidateTexts(sig) {
		for _, s := range secrets {
			if !hmac.Equal(value, hmacOf(s.key(), text.text)) {
				continue
			}
			if text.Problem != nil {
				return text.finding, true
			}
			return v.judgeSecret(s), true
		}
		sum := sha256.Sum256([]byte(text.text))
		if hmac.Equal(value, hmacOf(nil, text.text)) || hmac.Equal(value, sum[:]) {
			return newProblem("without_secret", "The secret was empty or unused: is it loaded?"), true
		}
	}
	return finding{}, false
}

// judgeSecret judges the secret that signed the right text.
func (v verification) judgeSecret(s signingSecret) finding {
	switch {
	case v.EndpointID != "" && s.EndpointID != v.EndpointID:
		return newProblem("other_secret", "It was computed with %s, not with the secret of %s.", s, v.EndpointID)
	case s.state(v.Now) == secretExpired:
		return newProblem("expired_secret",
			"It was computed with the previous secret of %s, which has expired.", s.name())
	}
	return finding{Message: fmt.Sprintf("It is right for its body: it was computed with %s.", s)}
}

func hmacOf(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
