package merchant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/merchant"
)

func TestMailText_IsOneLineWithoutLinks(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"Beans, 1.5 kg at 3.20":                                   "Beans, 1.5 kg at 3.20",
		"Café & Söhne e.V. 'ok'":                                  "Café & Söhne e.V. 'ok'",
		"your account is locked: https://evil.example/unlock?a=b": "your account is locked: https: //evil. example/unlock?a=b",
		"www.evil.com and pay@evil.co.uk":                         "www. evil. com and pay@evil. co. uk",
		"例え。テスト, a．example, a｡example, xn--a.xn--p1ai":            "例え。 テスト, a． example, a｡ example, xn--a. xn--p1ai",
		`\\server\share`:                                          `\ \server\share`,
		"=?utf-8?q?Your_bank?=":                                   "= ?utf-8?q?Your_bank?=",
		"Shop\r\nBcc: a@b.example":                                "Shop Bcc: a@b. example",
		"Sh\u202eop\u2066\u2028\u2029\u0085x":                     "Sh op x",
		"e\u200bvil.\u2060com, evil.\u00adcom":                    "e vil. com, evil. com",
		" \t ":                                                    "",
	} {
		require.Equal(t, want, merchant.MailText(written), "%q", written)
	}
}
