package checkout

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"time"
)

// NumberKey makes the ids of rows that a table numbers itself. Ids with the plain number would show merchants how many
// rows all merchants make. The key is a secret of the installation, and ids change with it.
type NumberKey []byte

// ID returns the id of a row. Such ids sort by creation, to the millisecond.
func (k NumberKey) ID(prefix string, created time.Time, number int64) string {
	b := idTime(created)
	binary.BigEndian.PutUint64(b[8:], uint64(number)) //nolint:gosec // a number of a table is positive
	k.permute(b[8:], slices.All(numberRounds))
	return prefix + "_" + InCell(idEncoding.EncodeToString(b[:]), cellAt)
}

// Number returns the number of the row with an id, 0 for a text that is no id.
func (k NumberKey) Number(id string) int64 {
	_, body, _ := strings.Cut(id, "_")
	b, err := idEncoding.DecodeString(body)
	if err != nil || len(b) != 16 {
		return 0
	}
	k.permute(b[8:], slices.Backward(numberRounds))
	return int64(binary.BigEndian.Uint64(b[8:])) //nolint:gosec // as it was made
}

var numberRounds = []byte{0, 1, 2, 3, 4, 5, 6, 7}

// permute changes eight bytes in the rounds of a Feistel network. The reverse order of the rounds changes them back.
func (k NumberKey) permute(number []byte, rounds iter.Seq2[int, byte]) {
	halves := [2][]byte{number[:4], number[4:]}
	for _, round := range rounds {
		changed, other := halves[round%2], halves[1-round%2]
		mac := hmac.New(sha256.New, k)
		mac.Write(append([]byte{round}, other...))
		subtle.XORBytes(changed, changed, mac.Sum(nil))
	}
}
