package api

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/webhook"
)

// readFields decodes body and knows the fields named.
func readFields(t *testing.T, body string, known ...string) (fields, *faults) {
	t.Helper()
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
	_, found := readFields(t, b.String(), "amount")
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
		f, found := readFields(t, `{"amount":`+value+`}`, "amount")
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
		f, found := readFields(t, `{"metadata":{"a":`+number+`}}`, "metadata")
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
	f, found := readFields(t, `{"events":`+in+`}`, "events")
	require.Equal(t, []webhook.EventType{"merchant.updated", "payout.failed", "payout.sent"}, f.events())
	require.Empty(t, *found)

	f, found = readFields(t, `{"events":[null,"payout.sent",1,["*"],{}]}`, "events")
	f.events()
	var params []string
	for _, fault := range *found {
		params = append(params, fault.Param)
	}
	require.Equal(t, []string{"events[0]", "events[2]", "events[3]", "events[4]"}, params)
}
