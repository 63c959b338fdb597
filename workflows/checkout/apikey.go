package checkout

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Prefixes of API keys. Source: interface document, "Authentication".
const (
	prefixTestKey = "sk_test_"
	prefixLiveKey = "sk_live_"
)

const apiKeyBodyLength = 64 // 256 random bits in hex

// APIKey is what the service knows of a key: never the key itself.
type APIKey struct {
	ID         string
	MerchantID string
	Mode       Mode
	Label      string
	Last4      string
}

// NewAPIKey returns a new secret key for mode. It is shown once and stored only
// as HashAPIKey of it.
func NewAPIKey(mode Mode) string {
	var b [apiKeyBodyLength / 2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	prefix := prefixTestKey
	if mode.Live() {
		prefix = prefixLiveKey
	}
	return prefix + hex.EncodeToString(b[:])
}

// HashAPIKey returns the SHA-256 by which a key is stored and looked up, and
// false when key does not have the shape of an API key. A key has 256 random
// bits, so a fast hash is enough.
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
