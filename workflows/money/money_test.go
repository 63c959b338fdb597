package money_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/money"
)

func TestParseAmount_TakesEveryJSONNumberThatIsAnAmount(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]money.Amount{
		"0.50": 50, "0.5": 50, "0.500": 50, "5E-1": 50, "0.005e2": 50, "1": 100, "1.000": 100, "10.5": 1050, "10.50": 1050,
		"10.500": 1050, "1.05e1": 1050, "1050e-2": 1050, "1e1": 1000, "1E+1": 1000, "1e01": 1000, "10e0": 1000,
		"1" + strings.Repeat("0", 400) + "e-400": 100, "1." + strings.Repeat("0", 60_000): 100,
		"999999": 99_999_900, "999999.99": 99_999_999, "999999.990": 99_999_999, "9.9999999e5": 99_999_999,
	} {
		got, err := money.ParseAmount(token)
		require.NoError(t, err, token)
		require.Equal(t, want, got, token)
	}
}

func TestParseUnitAmount_MayBeZero(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]money.Amount{"0": 0, "0.000": 0, "-0": 0, "0e999999999": 0, "0.01": 1, "3.490": 349, "1E+1": 1000} {
		got, err := money.ParseUnitAmount(token)
		require.NoError(t, err, token)
		require.Equal(t, want, got, token)
	}
	_, err := money.ParseUnitAmount("-3.50")
	require.EqualError(t, err, "must be between 0.00 and 999999.99, not -3.50")
}

func TestAmount_PercentageRoundsHalfUp(t *testing.T) {
	t.Parallel()
	require.Equal(t, money.Amount(11), money.Amount(1050).Percentage(100)) // 10.5 cents
	require.Equal(t, money.Amount(0), money.Amount(49).Percentage(100))
	require.Equal(t, money.Amount(1), money.Amount(50).Percentage(100))
	require.Equal(t, "-0.05", money.Amount(-5).String())
}

// TestParseAmount_NamesTheFault checks the texts that merchants read after the field's name. None proposes an amount:
// the merchant decides how to round.
func TestParseAmount_NamesTheFault(t *testing.T) {
	t.Parallel()
	const format = "must be a number in major units with at most 2 decimals, for example 10.50"
	for token, want := range map[string]string{
		"59.970000000000006":               "59.970000000000006 has more than 2 decimals",
		"10.505":                           "10.505 has more than 2 decimals",
		"0.499":                            "0.499 has more than 2 decimals",
		"999999.995":                       "999999.995 has more than 2 decimals",
		"-10.505":                          "-10.505 has more than 2 decimals",
		"1.0505e1":                         "1.0505e1 has more than 2 decimals",
		"1e-999999999":                     "1e-999999999 has more than 2 decimals",
		"1." + strings.Repeat("1", 60_000): "1." + strings.Repeat("1", 38) + "… has more than 2 decimals",
		"0":                                "must be between 0.50 and 999999.99, not 0",
		"-0":                               "must be between 0.50 and 999999.99, not -0",
		"0.49":                             "must be between 0.50 and 999999.99, not 0.49",
		"49e-2":                            "must be between 0.50 and 999999.99, not 49e-2",
		"-10.50":                           "must be between 0.50 and 999999.99, not -10.50",
		"1000000":                          "must be between 0.50 and 999999.99, not 1000000",
		"9223372036854775808":              "must be between 0.50 and 999999.99, not 9223372036854775808",
		"184467440737095526.16":            "must be between 0.50 and 999999.99, not 184467440737095526.16",
		"1e400":                            "must be between 0.50 and 999999.99, not 1e400",
		"1e999999999":                      "must be between 0.50 and 999999.99, not 1e999999999",
		"1e99999999999999999999":           "must be between 0.50 and 999999.99, not 1e99999999999999999999",
		"1" + strings.Repeat("0", 60_000):  "must be between 0.50 and 999999.99, not 1" + strings.Repeat("0", 39) + "…",
		"":                                 format,
		"ten":                              format,
		"NaN":                              format,
		"+1":                               format,
		"01":                               format,
		"1.":                               format,
		".5":                               format,
		" 1":                               format,
		"1e":                               format,
		"1_0":                              format,
		"1,0":                              format,
		"0x1p4":                            format,
		"1/2":                              format,
		"１":                                format,
		`"10"`:                             format,
	} {
		_, err := money.ParseAmount(token)
		require.EqualError(t, err, want, token)
	}
}

func TestPayoutCurrencies_HaveTerms(t *testing.T) {
	t.Parallel()
	for _, c := range money.PayoutCurrencies {
		require.Positive(t, c.Places(), c)
		require.True(t, money.NetworkCurrency(c.Network()).Valid(), c)
		require.NotEmpty(t, c.TestPrice(), c)
	}
	for _, c := range money.Currencies {
		require.NotEmpty(t, c.TestPrice(), c)
	}
}
