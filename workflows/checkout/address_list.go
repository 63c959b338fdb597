package checkout

import "strings"

// AddressList is a set of addresses on chains. Upper and lower case are the same: Ethereum and Bitcoin's
// newer addresses know no difference, and no two of Bitcoin's older ones differ in their case only. Make
// one with NewAddressList.
type AddressList map[string]struct{}

// NewAddressList returns a list of addresses.
func NewAddressList(addresses ...string) AddressList {
	l := AddressList{}
	for _, address := range addresses {
		l[strings.ToLower(address)] = struct{}{}
	}
	return l
}

// Has reports whether the list has the address. A nil list has none.
func (l AddressList) Has(address string) bool {
	_, ok := l[strings.ToLower(address)]
	return ok
}
