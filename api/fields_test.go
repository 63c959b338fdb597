package api

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// readFields decodes body and knows the fields named.
func readFields(t *testing.T, body string, known ...string) (fields, *faults) {
	t.Helper()
	members, err := decodeObject([]byte(body))
	require.NoError(t, err)
	var found faults
	return newFields(&found, members, known...), &found
}

func TestFields_NamesTheNearestKnownField(t *testing.T) {
	t.Parallel()
	known := []string{"amount", "currency", "payout_currency", "customer_email", "metadata", "redirect_url", "webhook_url", "livemode"}
	for name, want := range map[string]string{
		"webook_url":     "webook_url is not a known field; did you mean webhook_url?",
		"WebhookUrl":     "WebhookUrl is not a known field; did you mean webhook_url?",
		"webhook_uri":    "webhook_uri is not a known field; did you mean webhook_url?",
		"Amount":         "Amount is not a known field; did you mean amount?",
		"amonut":         "amonut is not a known field; did you mean amount?",
		"liveMode":       "liveMode is not a known field; did you mean livemode?",
		"customer_mail":  "customer_mail is not a known field; did you mean customer_email?",
		"payoutcurrency": "payoutcurrency is not a known field; did you mean payout_currency?",
		"id":             "id is not a known field; known are amount, currency, payout_currency, customer_email, metadata, redirect_url, webhook_url, livemode",
	} {
		require.Contains(t, name+" is not a known field"+hint(name, known), want)
	}
}

func TestFields_CutsLongNamesAndManyFaults(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"` + strings.Repeat("é", 5000) + `":1`)
	for i := range 5000 {
		b.WriteString(`,"` + strconv.Itoa(i) + `":1`)
	}
	b.WriteString(`}`)
	_, found := readFields(t, b.String(), "amount")
	require.Len(t, *found, 100)
	require.Equal(t, strings.Repeat("é", 40)+"…", (*found)[0].Param)
}

func TestFields_NullCountsAsNotSupplied(t *testing.T) {
	t.Parallel()
	f, found := readFields(t, `{"a":null,"b":null}`, "a", "b")
	_, ok := f.optionalText("a")
	require.False(t, ok)
	_, ok = f.requiredText("b")
	require.False(t, ok)
	require.Equal(t, faults{{"b", "b is required"}}, *found)
}

func TestFields_Amount(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]checkout.Amount{
		"0.5": 50, "0.50": 50, "1": 100, "10.5": 1050, "10.50": 1050, "10.00": 1000, "999999.99": 99_999_999,
		"0.57": 57, "1.1": 110, "8.29": 829, "19.99": 1999, "4.35": 435, "1234567": -1, "999999": 99_999_900,
	} {
		f, found := readFields(t, `{"amount":`+token+`}`, "amount")
		got := f.amount()
		if want < 0 {
			require.NotEmpty(t, *found, token)
			continue
		}
		require.Empty(t, *found, token)
		require.Equal(t, want, got, token)
	}
	for _, token := range []string{
		"0", "-0", "0.0", "0.00", "0.49", "-1", "-10.50", "0.001", "0.500", "10.505", "10.500", "1e2", "1E2", "1e+2", "1e-9", "1.0e1", "0e0",
		"1000000", "1000000.00", "999999.999", "99999999999999999999", "1e999", "1e-400", `"10"`, `"10.50"`, `""`, "true", "false",
		"[]", "[10]", "{}", "null", "0.1000000000000000055511151231257827",
	} {
		f, found := readFields(t, `{"amount":`+token+`}`, "amount")
		f.amount()
		require.Len(t, *found, 1, token)
		require.Equal(t, "amount", (*found)[0].Param)
	}
}

func TestFields_AmountSaysWhatCameAndHowToMendIt(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`59.970000000000006`: "amount 59.970000000000006 has more than 2 decimals; send 59.97",
		`"10.50"`:            "amount must be a number, not a string; send 10.50 without quotes",
		`"1E+1"`:             "amount must be a number, not a string; 1E+1 has an exponent; send 10.00",
		`"ten"`:              "amount must be a number in major units with at most 2 decimals, for example 10.50",
		`"12,50"`:            "amount must be a number in major units with at most 2 decimals, for example 10.50",
		`true`:               "amount must be a number in major units with at most 2 decimals, for example 10.50",
		`[10]`:               "amount must be a number in major units with at most 2 decimals, for example 10.50",
	} {
		f, found := readFields(t, `{"amount":`+value+`}`, "amount")
		f.amount()
		require.Equal(t, faults{{"amount", want}}, *found, value)
	}
}

func TestFields_Metadata(t *testing.T) {
	t.Parallel()
	pairs := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, `"k`+strconv.Itoa(i)+`":`+strconv.Itoa(i))
		}
		return `{` + strings.Join(all, ",") + `}`
	}
	sized := func(n int) string { // exactly n bytes
		var b strings.Builder
		b.WriteString(`{`)
		for i := 0; b.Len() < n-520; i++ {
			b.WriteString(`"k` + strconv.Itoa(100+i) + `":"` + strings.Repeat("x", 400) + `",`)
		}
		b.WriteString(`"z":"`)
		b.WriteString(strings.Repeat("y", n-b.Len()-2))
		return b.String() + `"}`
	}
	require.Len(t, sized(16<<10), 16<<10)
	for name, tc := range map[string]struct{ in, out string }{
		"empty":                {`{}`, `{}`},
		"kept":                 {`{"b":"x","a":1.50,"c":true,"d":false,"e":-0,"f":1e300}`, `{"b":"x","a":1.50,"c":true,"d":false,"e":-0,"f":1e300}`},
		"escapes kept":         {`{"\u0061":"\u00e9\/<\ud83d\ude00"}`, `{"\u0061":"\u00e9\/<\ud83d\ude00"}`},
		"white space goes":     {"{ \"a\" :\t\"b c\"\n}", `{"a":"b c"}`},
		"__proto__":            {`{"__proto__":"x","constructor":"y"}`, `{"__proto__":"x","constructor":"y"}`},
		"50 pairs":             {pairs(50), pairs(50)},
		"key of 40":            {`{"` + strings.Repeat("é", 40) + `":1}`, `{"` + strings.Repeat("é", 40) + `":1}`},
		"value of 500":         {`{"a":"` + strings.Repeat("😀", 500) + `"}`, `{"a":"` + strings.Repeat("😀", 500) + `"}`},
		"empty value":          {`{"a":""}`, `{"a":""}`},
		"newline in value":     {`{"a":"x\ny"}`, `{"a":"x\ny"}`},
		"16 KiB":               {sized(16 << 10), sized(16 << 10)},
		"names that differ":    {`{"a":1,"A":2}`, `{"a":1,"A":2}`},
		"a number of 500":      {`{"a":1.` + strings.Repeat("0", 498) + `}`, `{"a":1.` + strings.Repeat("0", 498) + `}`},
		"not supplied at all":  {`null`, `{}`},
		"SQL and HTML is text": {`{"a":"'; DROP TABLE x; --","b":"<script>"}`, `{"a":"'; DROP TABLE x; --","b":"<script>"}`},
	} {
		f, found := readFields(t, `{"metadata":`+tc.in+`}`, "metadata")
		got, _ := f.metadata()
		require.Empty(t, *found, name)
		require.Equal(t, tc.out, string(got), name)
	}
	for name, tc := range map[string]struct{ in, param string }{
		"array":                {`[]`, "metadata"},
		"string":               {`"{}"`, "metadata"},
		"51 pairs":             {pairs(51), "metadata"},
		"1000 pairs":           {pairs(1000), "metadata"},
		"16 KiB and a byte":    {sized(16<<10 + 1), "metadata"},
		"null value":           {`{"a":null}`, "metadata.a"},
		"object":               {`{"a":{}}`, "metadata.a"},
		"array value":          {`{"a":[1]}`, "metadata.a"},
		"empty key":            {`{"":1}`, "metadata."},
		"key of 41":            {`{"` + strings.Repeat("k", 41) + `":1}`, "metadata." + strings.Repeat("k", 40) + "…"},
		"value of 501":         {`{"a":"` + strings.Repeat("😀", 501) + `"}`, "metadata.a"},
		"NUL in value":         {`{"a":"x\u0000"}`, "metadata.a"},
		"NUL in key":           {`{"a\u0000":"x"}`, "metadata.a\x00"},
		"newline in key":       {`{"a\n":"x"}`, "metadata.a\n"},
		"delete in key":        {`{"a\u007f":"x"}`, "metadata.a\x7f"},
		"C1 control in key":    {`{"a\u0085":"x"}`, "metadata.a\u0085"},
		"a number of 501":      {`{"a":` + strings.Repeat("9", 501) + `}`, "metadata.a"},
		"a million and a byte": {`{"a":"` + strings.Repeat("x", 30<<10) + `"}`, "metadata"},
	} {
		f, found := readFields(t, `{"metadata":`+tc.in+`}`, "metadata")
		f.metadata()
		require.NotEmpty(t, *found, name)
		require.Equal(t, tc.param, (*found)[0].Param, name)
	}
}

// TestFields_MetadataHasNoNumberThatADoubleChanges refuses numbers that most readers, who use
// doubles, would change: into another number, into infinity, or into an error that makes a page of
// a list unreadable.
func TestFields_MetadataHasNoNumberThatADoubleChanges(t *testing.T) {
	t.Parallel()
	const tooLarge = "metadata.a must fit into a 64-bit float (at most 1.8e308); send it as a string"
	for number, want := range map[string]string{
		"1e999999999":                    tooLarge,
		"1E400":                          tooLarge,
		"-1e400":                         tooLarge,
		"1e309":                          tooLarge,
		"1e99999999999999999999":         tooLarge,
		strings.Repeat("9", 500):         tooLarge,
		"9007199254740993":               "metadata.a must be exact as a 64-bit float: readers would get 9007199254740992; send it as a string",
		"-9007199254740993":              "metadata.a must be exact as a 64-bit float: readers would get -9007199254740992; send it as a string",
		"1234567890123456789":            "metadata.a must be exact as a 64-bit float: readers would get 1234567890123456800; send it as a string",
		"0.1000000000000000055511151231": "metadata.a must be exact as a 64-bit float: readers would get 0.1; send it as a string",
		"1e-400":                         "metadata.a must be exact as a 64-bit float: readers would get 0; send it as a string",
		"1e-999999999":                   "metadata.a must be exact as a 64-bit float: readers would get 0; send it as a string",
		"0e401":                          "metadata.a must have an exponent between -400 and 400; send 0",
		"-0.00E-401":                     "metadata.a must have an exponent between -400 and 400; send 0",
		"0e-99999999999999999999":        "metadata.a must have an exponent between -400 and 400; send 0",
		"1e-99999999999999999999":        "metadata.a must be exact as a 64-bit float: readers would get 0; send it as a string",
	} {
		f, found := readFields(t, `{"metadata":{"a":`+number+`}}`, "metadata")
		f.metadata()
		require.Equal(t, faults{{"metadata.a", want}}, *found, number)
	}
	for _, number := range []string{
		"0", "-0", "0.0", "0e5", "0e400", "0e-400", "1", "-1", "1.50", "0.1", "59.970000000000006", "9007199254740992", "-9007199254740992",
		"9007199254740994", "1e23", "100000000000000000000000", "1.7976931348623157e308", "5e-324", "0.00001e5", "123.456E-2", "1e300",
	} {
		f, found := readFields(t, `{"metadata":{"a":`+number+`}}`, "metadata")
		got, _ := f.metadata()
		require.Empty(t, *found, number)
		require.Equal(t, `{"a":`+number+`}`, string(got))
	}
}

func TestFields_OrderIDIsAStringOrANumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"order_id":"A-1"}`: "A-1", `{"order_id":"\u0041-1"}`: "A-1", `{"order_id":17}`: "17", `{"order_id":1.50}`: "1.50",
		`{"order_id":""}`: "", `{"order_id":true}`: "", `{"Order_id":"A"}`: "", `{}`: "",
	} {
		f, found := readFields(t, `{"metadata":`+in+`}`, "metadata")
		_, got := f.metadata()
		require.Empty(t, *found)
		if want == "" {
			require.Nil(t, got, in)
		} else {
			require.Equal(t, want, *got, in)
		}
	}
}

func TestValidEmail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64) + "@" + strings.Repeat(strings.Repeat("b", 59)+".", 3) + "example" // 252
	for _, good := range []string{
		"a@b.co", "name@example.com", "first.last+tag@mail.example.co.uk", "o'brien@example.com", "a_b-c@ex-ample.com", "1@2.3a",
		"!#$%&'*+/=?^_`{|}~@example.com", "jörg@example.com", "name@münchen.example", "用户@例子.广告", "NAME@EXAMPLE.COM",
		"name@xn--mnchen-3ya.example", strings.Repeat("a", 64) + "@example.com", long,
	} {
		require.True(t, checkout.ValidEmail(good), good)
	}
	for _, bad := range []string{
		"", "a", "@", "a@", "@b.co", "a@@b.co", "a@b@c.co", "a@b", "name@localhost", "a b@c.co", " a@b.co", "a@b.co ", "a@b .co",
		"a@b.co\r\nBcc: x@y.co", "a\x00@b.co", "a@b.co\n", "Name <a@b.co>", "<a@b.co>", "a@b.co (x)", "(x)a@b.co", `"a b"@c.co`, `"a"@c.co`,
		".a@b.co", "a.@b.co", "a..b@c.co", "a@.b.co", "a@b..co", "a@b.co.", "a@-b.co", "a@b-.co", "a@b_c.co", "a@[127.0.0.1]", "a@[IPv6:::1]",
		"a@b.co,c@d.co", "a@b.co;c@d.co", "<script>@b.co", "a@<b>.co", "a@b.c/o", "mailto:a@b.co", strings.Repeat("a", 65) + "@b.co",
		"a@" + strings.Repeat("b", 64) + ".co", "=?utf-8?q?a?=@b.co x", "a\u200d@b.co", "a\u202e@b.co", "a@b.c\u200do", "a\u00a0@b.co", `a\@b.co`,
	} {
		require.False(t, checkout.ValidEmail(bad), bad)
	}
}

func TestFields_EmailHasAtMost254Characters(t *testing.T) {
	t.Parallel()
	at := func(n int) string { // an address of n characters
		domain := strings.Repeat(strings.Repeat("b", 60)+".", 3) + "example"
		return strings.Repeat("a", n-1-len(domain)) + "@" + domain
	}
	f, found := readFields(t, `{"e":"`+at(254)+`"}`, "e")
	require.Equal(t, at(254), *f.email("e"))
	require.Empty(t, *found)
	f, found = readFields(t, `{"e":"`+at(255)+`"}`, "e")
	f.email("e")
	require.Equal(t, faults{{"e", "e must have at most 254 characters"}}, *found)
}

func TestFields_Address(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url        string
		test, live bool
	}{
		{"https://shop.example/thanks?o=1#top", true, true},
		{"https://shop.example:8443/", true, true},
		{"https://[2001:db8::1]/x", true, true},
		{"https://bücher.example/", true, true},
		{"HTTPS://shop.example", true, true},
		{"http://shop.example/", true, false},
		{"http://localhost:3000/done", true, false},
		{"https://shop.example/" + strings.Repeat("a", 2048-21), true, true},
		{"https://shop.example/" + strings.Repeat("a", 2049-21), false, false},
		{"", false, false},
		{"/relative", false, false},
		{"shop.example/x", false, false},
		{"//shop.example/x", false, false},
		{`\\shop.example`, false, false},
		{`https:\\shop.example`, false, false},
		{"https:/shop.example", false, false},
		{"https://", false, false},
		{"https:///x", false, false},
		{"https:shop.example", false, false},
		{"javascript:alert(1)", false, false},
		{"JaVaScRiPt://x/%0aalert(1)", false, false},
		{"data:text/html,x", false, false},
		{"ftp://shop.example/", false, false},
		{"file:///etc/passwd", false, false},
		{"https://user@shop.example/", false, false},
		{"https://user:pass@shop.example/", false, false},
		{"https://shop.example:0/", false, false},
		{"https://shop.example:99999/", false, false},
		{"https://shop.example:/", false, false},
		{"https://shop.example/a b", false, false},
		{" https://shop.example/", false, false},
		{"https://shop.example/\r\nX: y", false, false},
		{"https://shop.example/\x00", false, false},
	} {
		for mode, want := range map[checkout.Mode]bool{checkout.ModeTest: tc.test, checkout.ModeLive: tc.live} {
			var found faults
			_, ok := fields{faults: &found}.address("redirect_url", tc.url, mode)
			require.Equal(t, want, ok, "%s %q", mode, tc.url)
			require.Equal(t, want, len(found) == 0)
		}
	}
}

func TestFields_Events(t *testing.T) {
	t.Parallel()
	all := []webhook.EventType{"*"}
	for in, want := range map[string][]webhook.EventType{
		`["checkout.completed"]`:                          {"checkout.completed"},
		`["payout.sent","checkout.failed","payout.sent"]`: {"payout.sent", "checkout.failed"},
		`["\u0070ayout.sent"]`:                            {"payout.sent"},
		`["*"]`:                                           all,
		`["*","*"]`:                                       all,
		`[` + strings.Repeat(`"*",`, 99) + `"*"]`:         all,
		`["merchant.updated","payout.failed","payout.sent"` + strings.Repeat(`,"payout.sent"`, 97) + `]`: {"merchant.updated", "payout.failed", "payout.sent"},
	} {
		f, found := readFields(t, `{"events":`+in+`}`, "events")
		require.Equal(t, want, f.events(), in)
		require.Empty(t, *found, in)
	}
	for in, params := range map[string][]string{
		`null`: {"events"},
		`[]`:   {"events"},
		`{}`:   {"events"},
		`"*"`:  {"events"},
		`[` + strings.Repeat(`"*",`, 100) + `"*"]`: {"events"},
		`[` + strings.Repeat(`"x",`, 9999) + `1]`:  {"events"},
		`["*","payout.sent"]`:                      {"events"},
		`["payout.sent","*"]`:                      {"events"},
		`["Payout.sent"]`:                          {"events[0]"},
		`["payout.sent "]`:                         {"events[0]"},
		`["payout.*"]`:                             {"events[0]"},
		`[""]`:                                     {"events[0]"},
		`[null,"payout.sent",1,["*"],{}]`:          {"events[0]", "events[2]", "events[3]", "events[4]"},
	} {
		f, found := readFields(t, `{"events":`+in+`}`, "events")
		f.events()
		var got []string
		for _, fault := range *found {
			got = append(got, fault.Param)
		}
		require.Equal(t, params, got, in)
	}
}
