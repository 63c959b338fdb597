package api

import (
	"errors"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/webhook"
)

// decodeFields decodes body and knows the fields named.
func decodeFields(t *testing.T, body string, known ...string) (fields, *faults) {
	members, err := decodeObject([]byte(body))
	require.NoError(t, err)
	f := newFields(members, known...)
	return f, f.faults
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
		require.Contains(t, name+" is not a known field"+suggestField(name, known), want)
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
	_, found := decodeFields(t, b.String(), "amount")
	require.Len(t, *found, 100)
	require.Equal(t, strings.Repeat("é", 40)+"…", (*found)[0].Param)
}

func TestFields_AmountNamesTheFault(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"10.50"`:  "amount must be a number, not a string; send 10.50 without quotes",
		`"1E+1"`:   "amount must be a number, not a string; send 10.00 without quotes",
		`"10.505"`: "amount must be a number, not a string; 10.505 has more than 2 decimals",
		`10.505`:   "amount 10.505 has more than 2 decimals",
		`"ten"`:    "amount must be a number in major units with at most 2 decimals, for example 10.50",
		`true`:     "amount must be a number in major units with at most 2 decimals, for example 10.50",
	} {
		f, found := decodeFields(t, `{"amount":`+value+`}`, "amount")
		f.amount()
		require.Equal(t, faults{{"amount", want}}, *found, value)
	}
}

func TestFields_OrderIDIsAStringOrANumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"order_id":"A-1"}`: "A-1", `{"order_id":"\u0041-1"}`: "A-1", `{"order_id":17}`: "17", `{"order_id":1.50}`: "1.50",
		`{"order_id":""}`: "", `{"order_id":true}`: "", `{"Order_id":"A"}`: "", `{}`: "",
	} {
		f, found := decodeFields(t, `{"metadata":`+in+`}`, "metadata")
		_, got := f.metadata()
		require.Empty(t, *found)
		if want == "" {
			require.Nil(t, got, in)
		} else {
			require.Equal(t, want, *got, in)
		}
	}
}

// TestFields_MetadataHasNoNumberThatADoubleChanges refuses numbers that most readers, who use doubles, would change.
// The corpus of input has more of them.
func TestFields_MetadataHasNoNumberThatADoubleChanges(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"1e99999999999999999999": "metadata.a must fit into a 64-bit float (at most 1.8e308); send it as a string",
		"1234567890123456789": "metadata.a must be exact as a 64-bit float: readers would get 1234567890123456800; " +
			"send it as a string",
		"-0.00E-401":              "metadata.a must have an exponent between -400 and 400; send 0",
		"0e-99999999999999999999": "metadata.a must have an exponent between -400 and 400; send 0",
		"0e400":                   "", "0e-400": "", "1e23": "", "5e-324": "",
	} {
		f, found := decodeFields(t, `{"metadata":{"a":`+number+`}}`, "metadata")
		f.metadata()
		if want == "" {
			require.Empty(t, *found, number)
			continue
		}
		require.Equal(t, faults{{"metadata.a", want}}, *found, number)
	}
}

// The corpus of input has what is refused.
func TestFields_EventsAreAtMostHundredAndKeptOnceInTheirOrder(t *testing.T) {
	t.Parallel()
	in := `["merchant.updated","payout.failed","payout.sent"` + strings.Repeat(`,"payout.sent"`, 97) + `]`
	f, found := decodeFields(t, `{"events":`+in+`}`, "events")
	require.Equal(t, []webhook.EventType{"merchant.updated", "payout.failed", "payout.sent"}, f.events())
	require.Empty(t, *found)

	f, found = decodeFields(t, `{"events":[null,"payout.sent",1,["*"],{}]}`, "events")
	f.events()
	var params []string
	for _, fault := range *found {
		params = append(params, fault.Param)
	}
	require.Equal(t, []string{"events[0]", "events[2]", "events[3]", "events[4]"}, params)
}

func TestDecodeObject_KeepsOrderAndTheBytesOfValues(t *testing.T) {
	t.Parallel()
	got, err := decodeObject([]byte(" {\"b\" : 1.50 , \"a\":\"\\u0041\\/\" ,\"c\":[1, 2],\"\\u0064\":null}\r\n"))
	require.NoError(t, err)
	require.Equal(t, []member{
		{"b", jsontext.Value(`1.50`)}, {"a", jsontext.Value(`"\u0041\/"`)},
		{"c", jsontext.Value(`[1, 2]`)}, {"d", jsontext.Value(`null`)},
	}, got)
}

func TestDecodeObject_TakesEightLevels(t *testing.T) {
	t.Parallel()
	for levels, taken := range map[int]bool{1: true, 8: true, 9: false} {
		_, err := decodeObject([]byte(strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)))
		require.Equal(t, taken, err == nil, levels)
	}
}

func TestReadObject_ReadsAtMost64KiBAndOneByte(t *testing.T) {
	t.Parallel()
	var e *refusal

	read := func(body *strings.Reader, length int64) error {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = length
		_, err := readObject(r)
		return err
	}
	for length, unread := range map[int64]int{-1: 1<<20 - (64<<10 + 1), 1 << 20: 1 << 20} { // a known length alone decides
		body := strings.NewReader(strings.Repeat(" ", 1<<20))
		require.ErrorAs(t, read(body, length), &e)
		require.Equal(t, 413, e.kind.Status())
		require.Equal(t, "payload_too_large", e.body.Error)
		require.Equal(t, unread, body.Len())
	}
	full := `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`
	require.Len(t, full, 64<<10)
	require.NoError(t, read(strings.NewReader(full), 64<<10))
}

func TestReadObject_RefusesABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", iotest.ErrReader(errors.New("wires were cut")))
	r.Header.Set("Content-Type", "application/json")
	_, err := readObject(r)
	var e *refusal
	require.ErrorAs(t, err, &e)
	require.Equal(t, 400, e.kind.Status())
	require.NotContains(t, e.body.Message, "wires")
}
