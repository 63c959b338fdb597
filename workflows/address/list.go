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
func ReadList(from io.Reader) (checkout.AddressList, error) {
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
	return checkout.NewAddressList(addresses...), nil
}

func onSomeNetwork(address string) bool {
	for _, check := range checks {
		if check(checkout.ModeTest, address) == nil {
			return true
		}
	}
	return false
}
