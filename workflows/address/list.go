package address

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.com/checkout/workflows/checkout"
)

// ReadList reads a list of addresses of Ethereum and Bitcoin, one a line. What follows a # is a
// comment. The error names the line that is wrong, and does not quote it.
func ReadList(from io.Reader) (List, error) {
	var addresses []string
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if !onSomeNetwork(text) {
			return nil, fmt.Errorf("line %d is no address of Ethereum or Bitcoin", n)
		}
		addresses = append(addresses, text)
	}
	if lines.Err() != nil { // a line without an end, or a directory
		return nil, errors.New("is no text with one address a line")
	}
	return NewList(addresses...), nil
}

func onSomeNetwork(address string) bool {
	for _, check := range checks {
		if check(checkout.ModeTest, address) == nil {
			return true
		}
	}
	return false
}

// List is a set of addresses on chains. Upper and lower case are the same: Ethereum and Bitcoin's newer addresses know
// no difference, and no two of Bitcoin's older ones differ in their case only. Make one with NewList.
type List map[string]struct{}

// NewList returns a list of addresses.
func NewList(addresses ...string) List {
	l := List{}
	for _, address := range addresses {
		l[strings.ToLower(address)] = struct{}{}
	}
	return l
}

// Has reports whether the list has the address. A nil list has none.
func (l List) Has(address string) bool {
	_, ok := l[strings.ToLower(address)]
	return ok
}
