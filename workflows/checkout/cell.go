package checkout

import (
	"strings"
	"sync/atomic"
)

// A Cell is one installation of the service, with some of all merchants, as two characters of an id's alphabet. Its ids
// and API keys hold it, so that a proxy in front of several cells knows where a request belongs before it asks anybody.
type Cell string

// FirstCell is the cell of an installation that is alone.
const FirstCell Cell = "00"

// Valid reports whether c has two characters of an id's alphabet.
func (c Cell) Valid() bool { return len(c) == 2 && strings.Trim(string(c), idAlphabet) == "" }

// cellAt is the place of the cell in an id's body, after the time.
const cellAt = 10

// ownCell is the cell of this process. One installation has one, and every process of it reads it
// from the database, so it is not a parameter of everything that makes an id.
var ownCell atomic.Value

// SetCell makes NewID, SeededID and InCell write c, which must be valid. Without it they write FirstCell.
func SetCell(c Cell) { ownCell.Store(c) }

func cell() Cell {
	if c, ok := ownCell.Load().(Cell); ok {
		return c
	}
	return FirstCell
}

// InCell writes the cell of this process over two characters of a body, that of an id or of an API key.
func InCell(body string, at int) string { return body[:at] + string(cell()) + body[at+2:] }

// CellOf returns the cell that an id names. It returns false for any other text.
func CellOf(id string) (Cell, bool) {
	prefix, body, _ := strings.Cut(id, "_")
	if !IsID(prefix, id) {
		return "", false
	}
	return Cell(body[cellAt : cellAt+2]), true
}
