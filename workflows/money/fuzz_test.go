package money_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"example.com/checkout/workflows/money"
)

// FuzzParseAmount: a token is accepted exactly when math/big reads an amount in bounds from the JSON number; the amount
// survives encoding and parsing.
func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{
		"0.50", "0.5", "10.50", "999999.99", "1000000", "1e2", "-1", "-0", "01", "10.", ".5", "0.001", "10.500", "99999999999999999999", "184467440737095526.16",
		"+1", "1_0", "0x1", "NaN", "", ".", "١", "0.30000000000000004", "59.970000000000006", "1e999999999", "1e-999999999", "1E+1", "10.505", strings.Repeat("9", 400), "1." + strings.Repeat("0", 400),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		got, err := money.ParseAmount(token)
		if err != nil {
			if got != 0 || isAmount(token) {
				t.Fatalf("%q: %d with %v", token, got, err)
			}
			return
		}
		exact, ok := new(big.Rat).SetString(token)
		if !ok || exact.Mul(exact, big.NewRat(100, 1)).Cmp(new(big.Rat).SetInt64(int64(got))) != 0 {
			t.Fatalf("%q is %s cents, not %d", token, exact, got)
		}
		if got < money.MinAmount || got > money.MaxAmount {
			t.Fatalf("%q: %d is out of bounds", token, got)
		}
		text := got.String()
		if again, err := money.ParseAmount(text); err != nil || again != got || again.String() != text {
			t.Fatalf("%q: %s is read as %d, %v", token, text, again, err)
		}
		if want := fmt.Sprintf("%d.%02d", got/100, got%100); text != want {
			t.Fatalf("%q: %s, not %s", token, text, want)
		}
	})
}

// isAmount reports whether token is a JSON number whose value is an amount. It passes over large exponents, which
// math/big would write out.
func isAmount(token string) bool {
	exact, ok := new(big.Rat), json.Valid([]byte(token)) && strings.Trim(token, "-+.eE0123456789") == ""
	if _, exponent, _ := strings.Cut(strings.ToLower(token), "e"); !ok || len(strings.TrimLeft(exponent, "+-0")) > 3 {
		return false
	}
	exact.SetString(token)
	exact.Mul(exact, big.NewRat(100, 1))
	return exact.IsInt() && exact.Num().IsInt64() &&
		exact.Num().Int64() >= int64(money.MinAmount) && exact.Num().Int64() <= int64(money.MaxAmount)
}

// FuzzParseCrypto: an accepted amount means the same number to math/big, and survives String, JSON and SQL.
func FuzzParseCrypto(f *testing.F) {
	for _, seed := range []string{"1.5", "0", "007", ".5", "5.", "0.000001", "0.0000001", "1.50000000", "1e3", "+1", "-1", "1.2.3", "0x1", "1_0", "", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range money.PayoutCurrencies {
			got, err := money.ParseCrypto(text, c)
			if err != nil {
				if got.Known() {
					t.Fatalf("%q: %s with %v", text, got, err)
				}
				continue
			}
			exact, ok := new(big.Rat).SetString(text)
			if !ok || exact.Cmp(got.Coins()) != 0 || strings.Trim(text, "0123456789.") != "" {
				t.Fatalf("%q is read as %s", text, got)
			}
			again, err := money.ParseCrypto(got.String(), c)
			var row money.Crypto
			var purse money.Purse
			encoded, _ := json.Marshal(money.PurseOf(got))
			if err = errors.Join(err, row.Scan(got.String()+" "+string(c)), json.Unmarshal(encoded, &purse)); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if !again.Is(got) || !row.Is(got) || !purse[c].Is(got) {
				t.Fatalf("%q is %s, and then %s, %s and %s", text, got, again, row, purse[c])
			}
		}
	})
}
