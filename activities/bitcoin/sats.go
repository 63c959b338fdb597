package bitcoin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"

	"example.com/checkout/workflows/money"
)

// sats is an amount in satoshis. The RPC writes whole bitcoins with 8 decimals; no float ever has them.
type sats int64

// allBitcoins is more than all bitcoins that will ever exist.
const allBitcoins = sats(21_000_000 * 100_000_000)

// UnmarshalJSON reads a number of bitcoins from its digits.
func (s *sats) UnmarshalJSON(number []byte) error {
	digits, negative := bytes.CutPrefix(number, []byte("-"))
	units, err := money.ParseUnits(string(digits), money.BTC.Places())
	if err != nil || !units.IsInt64() || sats(units.Int64()) > allBitcoins {
		return fmt.Errorf("%.40q is no amount of bitcoins", number)
	}
	if *s = sats(units.Int64()); negative {
		*s = -*s
	}
	return nil
}

// MarshalJSON writes bitcoins as a text, which the RPC takes for an amount.
func (s sats) MarshalJSON() ([]byte, error) { return json.Marshal(s.crypto().String()) }

func (s sats) crypto() money.Crypto { return money.NewCrypto(big.NewInt(int64(s)), money.BTC) }

// satsOf returns an amount in satoshis, or an error if there cannot be so many bitcoins.
func satsOf(a money.Crypto) (sats, error) {
	units := a.Units()
	if a.Currency() != money.BTC || !units.IsInt64() || units.Sign() < 0 || sats(units.Int64()) > allBitcoins {
		return 0, fmt.Errorf("%q is no amount of BTC", a.Named())
	}
	return sats(units.Int64()), nil
}
