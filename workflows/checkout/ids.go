// Package checkout holds what every product shares about a checkout: sessions, payments, payouts, owners, ids and
// errors. It does no I/O and imports the standard library and package money only.
package checkout

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// Prefixes of the public ids. Source: api/interface.md, "Resources and their fields", and api/decisions/answers.md,
// "ids", for the others.
const (
	PrefixSession     = "cs"
	PrefixEvent       = "evt"
	PrefixEndpoint    = "wh"
	PrefixDelivery    = "whd"
	PrefixReplay      = "whr"
	PrefixTransaction = "txn"
	PrefixPayout      = "po"
	PrefixAPIKey      = "key"
	PrefixMerchant    = "mer"
	PrefixRequest     = "req"
	PrefixMember      = "usr"
	PrefixPasskey     = "pk"
	PrefixAuditEntry  = "aud"
	PrefixChange      = "chg"
	PrefixRefund      = "re"
	PrefixFinding     = "fnd"
	PrefixTest        = "test" // subject of a test event
	PrefixTreasury    = "tre"
	PrefixTransfer    = "tr"
	PrefixMasterKey   = "mk"
	PrefixPicture     = "pic" // of a line item
	PrefixDispute     = "dp"
	PrefixBalance     = "btx" // of a balance transaction
	PrefixEvidence    = "dpe" // of a request with evidence; internal
)

// idEncoding is Crockford's base32 in lower case. It keeps the order of the bytes, and it avoids
// letters that people confuse when they read an id aloud.
var idEncoding = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const idBodyLength = 26 // 128 bits, 5 bits a character

// NewID returns prefix, an underscore and 26 characters. The characters hold 48 bits of the current time in
// milliseconds, the cell (characters 11 and 12) and 70 random bits. So ids sort by creation and cannot be guessed.
func NewID(prefix string) string {
	b := idTime(time.Now())
	_, _ = rand.Read(b[6:]) // never fails: crypto/rand ends the process instead
	return prefix + "_" + InCell(idEncoding.EncodeToString(b[:]), cellAt)
}

// SeededID is NewID from a seed: the same seed makes the same id. The seed must have at least 16
// bytes; the first six are the time in milliseconds.
func SeededID(prefix string, seed []byte) string {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte("id " + prefix))
	b := append(append([]byte(nil), seed[:6]...), mac.Sum(nil)[:10]...)
	return prefix + "_" + InCell(idEncoding.EncodeToString(b), cellAt)
}

// NewSeed returns a seed for SeededID: the time and 208 random bits.
func NewSeed() []byte {
	b := idTime(time.Now())
	seed := append(b[:6:6], make([]byte, 26)...)
	_, _ = rand.Read(seed[6:]) // never fails: crypto/rand ends the process instead
	return seed
}

// ClockSkew is the largest difference between the time in an id and created_at. A process of ours makes the id;
// PostgreSQL sets created_at.
const ClockSkew = time.Hour

// FirstID returns a text that sorts before every id with this prefix that was made at t or later.
func FirstID(prefix string, t time.Time) string {
	b := idTime(t)
	return prefix + "_" + idEncoding.EncodeToString(b[:])
}

func idTime(t time.Time) (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], uint64(max(0, t.UnixMilli()))<<16)
	return b
}

// IDTime returns the time at which an id was made, to the millisecond. It returns false when IsID does.
func IDTime(prefix, id string) (time.Time, bool) {
	if !IsID(prefix, id) {
		return time.Time{}, false
	}
	b, _ := idEncoding.DecodeString(id[len(prefix)+1:]) // IsID has checked the letters
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16)).UTC(), true
}

// IsID reports whether id has the shape of an id with this prefix. The object need not exist.
func IsID(prefix, id string) bool {
	body, ok := strings.CutPrefix(id, prefix+"_")
	// The decoder would skip line ends and read the byte 0xff as padding.
	return ok && len(body) == idBodyLength && strings.Trim(body, idAlphabet) == ""
}
