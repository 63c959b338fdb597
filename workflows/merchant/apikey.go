package merchant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Prefixes of API keys. Source: api/interface.md, "Authentication".
const (
	prefixTestKey = "sk_test_"
	prefixLiveKey = "sk_live_"
)

const apiKeyBodyLength = 64 // the cell, and 248 random bits in hex

// APIKey describes an API key. It never holds the key itself.
type APIKey struct {
	checkout.Ref

	Label     string
	Scopes    Scopes
	Last4     string
	CreatedAt time.Time
	RevokedAt *time.Time // nil while the key is valid
	UsedAt    *time.Time // nil when the last use is unknown or long ago
}

// Scopes say what a key may do: ScopeFull, ScopeRead, or a list of "resource:read" and
// "resource:write". Write includes read.
type Scopes []string

// Scopes that cover every resource.
const (
	ScopeFull = "full"
	ScopeRead = "read"
)

// Resources that a key can be limited to.
const (
	ResourceCheckout   = "checkout"
	ResourceWebhooks   = "webhooks"
	ResourceDeliveries = "deliveries"
	ResourceEvents     = "events"
	ResourcePayouts    = "payouts"
	ResourceRefunds    = "refunds" // and disputes
)

// AllScopes lists every scope.
var AllScopes = Scopes{
	ScopeFull, ScopeRead,
	"checkout:read", "checkout:write", "webhooks:read", "webhooks:write", "deliveries:read",
	"deliveries:write", "events:read", "payouts:read", "payouts:write", "refunds:read", "refunds:write",
}

// Allow reports whether a key with these scopes may read, or write, a resource.
func (s Scopes) Allow(resource string, write bool) bool {
	return slices.ContainsFunc(s, func(scope string) bool {
		switch scope {
		case ScopeFull, resource + ":write":
			return true
		case ScopeRead, resource + ":read":
			return !write
		}
		return false
	})
}

// scopeWords say what each scope allows. The text follows "may" in a sentence.
var scopeWords = map[string]string{
	ScopeFull:          "do everything",
	ScopeRead:          "read everything",
	"checkout:read":    "read sessions",
	"checkout:write":   "create, read and expire sessions",
	"webhooks:read":    "read webhooks",
	"webhooks:write":   "change, test and read webhooks, and so be sent every event",
	"deliveries:read":  "read deliveries",
	"deliveries:write": "replay, hold, retry and read deliveries",
	"events:read":      "read events",
	"payouts:read":     "read payouts and the balance",
	"payouts:write":    "retry payouts, and read them and the balance",
	"refunds:read":     "read refunds and disputes",
	"refunds:write":    "refund payments, answer disputes, and read both",
}

// Words describes the scopes for people. The text follows "may" in a sentence.
func (s Scopes) Words() string {
	words := make([]string, len(s))
	for i, scope := range s {
		words[i] = scopeWords[scope]
	}
	return strings.Join(words, "; ")
}

// ParseScopes reads scopes separated by commas; "" means ScopeFull. Its error names the unknown scope.
func ParseScopes(text string) (Scopes, error) {
	if text == "" {
		return Scopes{ScopeFull}, nil
	}
	var scopes Scopes
	for scope := range strings.SplitSeq(text, ",") {
		scope = strings.TrimSpace(scope)
		if !slices.Contains(AllScopes, scope) {
			return nil, fmt.Errorf("%q is not a scope; scopes are %s", scope, strings.Join(AllScopes, ", "))
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// NewAPIKey returns a new secret key for mode. The service shows it once and stores only its HashAPIKey.
func NewAPIKey(mode checkout.Mode) string {
	var b [apiKeyBodyLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	prefix := prefixTestKey
	if mode.Live() {
		prefix = prefixLiveKey
	}
	return prefix + checkout.InCell(hex.EncodeToString(b[:]), 0)
}

// HashAPIKey returns the SHA-256 of a key, under which the key is stored. It returns false when key
// does not look like an API key. A key has 248 random bits, so a fast hash is enough.
func HashAPIKey(key string) ([]byte, bool) {
	body, ok := strings.CutPrefix(key, prefixTestKey)
	if !ok {
		body, ok = strings.CutPrefix(key, prefixLiveKey)
	}
	if !ok || len(body) != apiKeyBodyLength {
		return nil, false
	}
	sum := sha256.Sum256([]byte(key))
	return sum[:], true
}
