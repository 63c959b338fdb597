package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/runs"
)

func TestPay_Succeeds(t *testing.T) {
	h := newHarness(t)
	h.pay = succeeds
	id := h.session()
	w := h.post("/"+id, goodCard())
	h.requireRedirect(w, "/checkout/"+id)
	body := h.follow(w)
	for _, want := range []string{
		"Payment successful", "$10.50", "Visa •••• 4242", "Return to Aurora Coffee",
		`href="` + html.EscapeString(redirectURL) + `"`, `http-equiv="refresh" content="5;url=` + html.EscapeString(redirectURL) + `"`,
		`data-redirect="` + html.EscapeString(redirectURL) + `"`,
	} {
		require.Contains(t, body, want)
	}
	require.Equal(t, []string{canaryCard + " " + canaryCVC}, h.cards.seen)
	require.Equal(t, checkout.StatusCompleted, h.read(id).Status)
	h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id) // again: no second payment
	require.Len(t, h.paid, 1)
}

func TestPay_DeclinedMayTryAgainUntilTheSessionFails(t *testing.T) {
	h := newHarness(t)
	h.pay = declines
	id := h.session()
	for _, left := range []string{"You can try 2 more times.", "You can try one more time."} {
		form := goodCard()
		form.Set(fieldName, "Ada Example")
		w := h.post("/"+id, form)
		require.Equal(t, http.StatusOK, w.Code)
		body := h.follow(w)
		require.Contains(t, body, "Your card has insufficient funds. Try another card. "+left)
		require.Regexp(t, `name="exp"[^>]* value="12 / 40"`, body, "what need not be typed again")
		require.Regexp(t, `name="name"[^>]* value="Ada Example"`, body)
		require.Contains(t, body, `role="alert"`)
		require.Contains(t, body, `name="card_number"`)
		require.NotContains(t, body, redirectURL)
	}
	body := h.follow(h.post("/"+id, goodCard()))
	require.Contains(t, body, "This payment has failed")
	require.NotContains(t, body, `name="card_number"`)
	require.NotContains(t, body, "shop.example.test/thanks", "only a completed session leads there")
	require.Contains(t, body, `<a class="button" rel="noreferrer" href="https://shop.example.test/">Return to Aurora Coffee</a>`)
	require.Len(t, h.paid, 3)
}

// A script keeps the form open: it learns what to fill in again, and nothing that was typed.
func TestPay_AScriptReadsTheAnswer(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	ask := func(form url.Values) (got formAnswer) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+"/"+id, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "application/json")
		w := h.do(r)
		require.Equal(t, http.StatusOK, w.Code)
		require.NotRegexp(t, `\b`+canaryCVC+`\b`, w.Body.String()) // an id may contain 987
		require.NotContains(t, w.Body.String(), "ada@")
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		return got
	}
	bad := goodCard()
	bad.Set(fieldEmail, "ada@")
	require.Equal(t, []fault{{fieldEmail, english.Texts.EmailBad}}, ask(bad).Faults)

	h.pay = declines
	got := ask(goodCard())
	require.Equal(t, []any{1, []string{fieldCardNumber, fieldCVC}}, []any{got.Attempt, got.Empty})
	require.Equal(t, "Your card has insufficient funds. Try another card. You can try 2 more times.", got.Reason)
	require.True(t, checkout.IsID(checkout.PrefixTransaction, got.Payment))
	require.NotEqual(t, h.paid[0], got.Payment, "the next payment is another one")

	old := goodCard()
	old.Set(fieldAttempt, "0")
	require.Equal(t, english.Texts.OvertakenText, ask(old).Reason)

	h.pay = decides(checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureIncorrectCVC})
	require.Equal(t, []string{fieldCVC}, ask(goodCard()).Empty)
	require.Equal(t, []string{fieldCardNumber, fieldCVC}, ask(old).Empty, "another message than the last decline")
	h.pay = succeeds
	require.Equal(t, formAnswer{Next: "/checkout/" + id}, ask(goodCard()))
}

func TestPay_BankAsks(t *testing.T) {
	h := newHarness(t)
	h.pay = asksBank
	id := h.session()
	w := h.post("/"+id, goodCard())
	// Another origin: browsers refuse a form's redirect there, so a page of ours is in between.
	h.requireRedirect(w, "/checkout/"+id+"?continue")
	body := h.follow(w)
	require.Contains(t, body, "Continue to your bank")
	require.Contains(t, body, `href="`+html.EscapeString(bankURL)+`"`)
	require.Contains(t, body, "data-forward")
	require.NotContains(t, h.get("/"+id).Body.String(), "data-forward", "coming back must not bounce")
	require.Contains(t, h.get("/"+id+"/status").Body.String(), `{"status":"pending","payment_in_flight":true,"action":true,"checking":false,`)

	asked := ""
	h.complete = func(h *harness, ref checkout.Ref, txn string) (contract.PaymentResult, error) {
		asked = txn
		_, _, err := h.store.Sessions.RecordCharge(t.Context(), ref, txn, checkout.ChargeResult{
			Outcome: checkout.OutcomeSucceeded, Method: checkout.PaymentMethod{Type: "card", Brand: "visa", Last4: "4242"}})
		require.NoError(t, err)
		_, err = h.store.Sessions.FinishPayment(t.Context(), ref, txn)
		return contract.PaymentResult{Outcome: checkout.OutcomeSucceeded}, err
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+"/"+id+"/return?status=failed", strings.NewReader("anything"))
	r.Header.Set("Sec-Fetch-Site", "cross-site") // banks post
	w = h.do(r)
	h.requireRedirect(w, "/checkout/"+id)
	require.Contains(t, h.follow(w), "Payment successful")
	require.Equal(t, h.paid, []string{asked})
	h.requireRedirect(h.get("/"+id+"/return"), "/checkout/"+id) // once more: nothing to ask
}

// A slow answer costs the customer no click: the page that waits for this payment goes on to the bank.
func TestPay_BankAsksLate(t *testing.T) {
	h := newHarness(t)
	h.pay = unknown
	id := h.session()
	w := h.post("/"+id, goodCard())
	mine := "/" + id + "?payment=" + h.paid[0]
	require.Contains(t, h.follow(w), `data-next="/checkout`+mine+`"`)
	h.pay = asksBank
	h.requireRedirect(h.get(mine), "/checkout/"+id+"?continue")
	require.Contains(t, h.get(mine).Body.String(), "data-forward")
	for _, other := range []string{checkout.NewID(checkout.PrefixTransaction), ""} {
		body := h.get("/" + id + "?payment=" + other).Body.String()
		require.Contains(t, body, "Continue to your bank")
		require.NotContains(t, body, "data-forward", "another tab's payment")
	}
}

func TestPay_BankOnOurOriginIsReachedAtOnce(t *testing.T) {
	h := newHarness(t)
	address := "https://pay.example.test/sandbox/3ds/txn"
	h.pay = decides(checkout.ChargeResult{Outcome: checkout.OutcomeActionRequired, ActionURL: address})
	h.requireRedirect(h.post("/"+h.session(), goodCard()), address)
}

func TestReturn_UnknownOutcomeKeepsWaiting(t *testing.T) {
	h := newHarness(t)
	h.pay, h.complete = asksBank, unknown
	id := h.session()
	h.post("/"+id, goodCard())
	w := h.get("/" + id + "/return")
	h.requireRedirect(w, "/checkout/"+id)
	require.Contains(t, h.follow(w), "I have already confirmed")
}

// A customer may come back any number of times, and each question to the workflow would add to its
// history.
func TestReturn_AsksTheWorkflowOnlyOnceTheNetworkHasDecided(t *testing.T) {
	h := newHarness(t)
	h.pay, h.cards.undecided = asksBank, true
	h.complete = func(*harness, checkout.Ref, string) (contract.PaymentResult, error) {
		t.Error("the workflow was asked")
		return contract.PaymentResult{}, nil
	}
	id := h.session()
	h.post("/"+id, goodCard())
	h.requireRedirect(h.get("/"+id+"/return"), "/checkout/"+id)
}

// TestPay_TwoTabs: each shows what happened to its own form, never the other's success or decline.
func TestPay_TwoTabs(t *testing.T) {
	h := newHarness(t)
	const elsewhere, outdated = "You paid in another tab", "This form was out of date"
	form := func() url.Values {
		f := goodCard()
		f.Set(fieldPayment, checkout.NewID(checkout.PrefixTransaction))
		return f
	}
	h.pay = takes
	id, first := h.session(), form()
	h.requireRedirect(h.post("/"+id, first), "/checkout/"+id)
	h.requireRedirect(h.post("/"+id, first), "/checkout/"+id) // the same form again
	h.requireRedirect(h.post("/"+id, form()), "/checkout/"+id+"?processing")
	require.Contains(t, h.get("/"+id+"?processing").Body.String(), `data-next="/checkout/`+id+`?overtaken"`)

	h.pay = succeeds
	id, first = h.session(), form()
	h.requireRedirect(h.post("/"+id, first), "/checkout/"+id)
	h.requireRedirect(h.post("/"+id, first), "/checkout/"+id)
	h.requireRedirect(h.post("/"+id, form()), "/checkout/"+id+"?overtaken")
	require.Contains(t, h.get("/"+id+"?overtaken").Body.String(), elsewhere)
	require.NotContains(t, h.get("/"+id).Body.String(), elsewhere)

	h.pay = declines
	id = h.session()
	require.Contains(t, h.follow(h.post("/"+id, form())), english.Texts.InsufficientFunds)
	body := h.get("/" + id + "?overtaken").Body.String()
	require.Contains(t, body, outdated)
	require.Contains(t, body, "<title>"+outdated)
	require.NotContains(t, body, english.Texts.InsufficientFunds)
}

// TestAsk_APaymentThatCannotBeReadIsUnknown: the page that waits must not lead to a new form.
func TestAsk_APaymentThatCannotBeReadIsUnknown(t *testing.T) {
	h := newHarness(t)
	away, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.server.askWorkflow(away, checkout.Session{Ref: h.refs[h.session()]}, checkout.NewID(checkout.PrefixTransaction))
	require.ErrorIs(t, err, runs.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPay_UnknownOutcomeNeverInvitesToPayAgain(t *testing.T) {
	h := newHarness(t)
	h.pay = unknown
	id := h.session()
	w := h.post("/"+id, goodCard())
	txn := h.paid[0]
	h.requireRedirect(w, "/checkout/"+id+"?payment="+txn)
	body := h.follow(w)
	require.Contains(t, body, "We are still checking your payment")
	require.NotContains(t, body, `name="card_number"`)
	require.Contains(t, body, `content="3;url=/checkout/`+id+`?payment=`+txn+`"`)
	require.Contains(t, body, `href="/checkout/`+id+`?lang=de&amp;payment=`+txn+`"`, "another language asks about the same payment")
	require.Contains(t, h.get("/"+id+"/status?payment="+txn).Body.String(), `"checking":true`)

	h.pay = succeeds // Temporal is back: the very same payment goes on
	require.Contains(t, h.get("/"+id+"/status?payment="+txn).Body.String(), `"status":"completed","payment_in_flight":false,"action":false,"checking":false`)
	require.Contains(t, h.get("/"+id+"?payment="+txn).Body.String(), "Payment successful")
	for _, again := range h.paid {
		require.Equal(t, txn, again)
	}
}

func TestPay_UnknownOutcomeThatHadBegunShowsProcessing(t *testing.T) {
	h := newHarness(t)
	h.pay = func(h *harness, ref checkout.Ref, txn string) (contract.PaymentResult, error) {
		_, err := h.store.Sessions.BeginPayment(t.Context(), ref, txn, checkout.Quote{Rate: money.MustRate("1.08")}, txn)
		require.NoError(t, err)
		return contract.PaymentResult{}, context.DeadlineExceeded
	}
	id := h.session()
	require.Contains(t, h.follow(h.post("/"+id, goodCard())), "Your payment is being processed")
	h.requireRedirect(h.post("/"+id+"/cancel", url.Values{"payment": h.paid}), "/checkout/"+id)
	require.Contains(t, h.get("/"+id).Body.String(), "Your payment is being processed", "what has begun cannot be canceled")
	require.Len(t, h.paid, 1)
}

func TestCancel_MakesAPaymentOfUnknownOutcomeImpossible(t *testing.T) {
	h := newHarness(t)
	h.pay = unknown
	id := h.session()
	h.post("/"+id, goodCard())
	txn := h.paid[0]
	w := h.post("/"+id+"/cancel", url.Values{"payment": {txn}})
	h.requireRedirect(w, "/checkout/"+id)
	require.Contains(t, h.follow(w), `name="card_number"`)
	_, err := h.store.Sessions.BeginPayment(t.Context(), h.refs[id], txn, checkout.Quote{Rate: money.MustRate("1.08")}, txn) // the message arrives late
	require.ErrorIs(t, err, checkout.ErrNotFound)
	h.pay = succeeds
	require.Contains(t, h.follow(h.post("/"+id, goodCard())), "Payment successful")
}

func TestPay_RefusedIsDropped(t *testing.T) {
	h := newHarness(t)
	for errType, want := range map[string]string{
		contract.ErrTypeSessionNotPending: "?overtaken", contract.ErrTypePaymentInFlight: "?processing", contract.ErrTypePaymentNotFound: "",
		contract.ErrTypePaymentNotPossible: "?not_possible",
	} {
		h.paid, h.pay = nil, refuses(errType)
		id := h.session()
		h.requireRedirect(h.post("/"+id, goodCard()), "/checkout/"+id+want)
		_, err := h.store.Sessions.BeginPayment(t.Context(), h.refs[id], h.paid[0], checkout.Quote{Rate: money.MustRate("1.08")}, h.paid[0])
		require.ErrorIs(t, err, checkout.ErrNotFound, errType)
		require.Contains(t, h.get("/"+id+"?processing").Body.String(), "is being processed")
	}
}

// Without an exchange rate nothing is charged and no attempt is used. The customer reads that, and may
// try again.
func TestPay_NotPossibleSaysSoAndUsesNoAttempt(t *testing.T) {
	h := newHarness(t)
	h.pay = declines
	id := h.session()
	h.post("/"+id, goodCard())
	h.pay = refuses(contract.ErrTypePaymentNotPossible)
	body := h.follow(h.post("/"+id, goodCard()))
	require.Contains(t, body, "<strong>Payments are not possible at the moment</strong>")
	require.Contains(t, body, "You have not been charged. Try again in a few minutes.")
	require.NotContains(t, body, english.Texts.InsufficientFunds, "the reason of another payment")
	require.Contains(t, body, `href="/checkout/`+id+`?lang=de&amp;not_possible="`)
	require.Contains(t, body, `name="card_number"`)
	require.Equal(t, 1, h.read(id).Attempts)
	h.pay = succeeds
	require.Contains(t, h.follow(h.post("/"+id, goodCard())), "Payment successful")
	require.Contains(t, h.get("/"+id+"?not_possible").Body.String(), "Payment successful", "the parameter only adds a message to the form")
}

// A page that waits for the answer learns the same.
func TestStatus_NotPossible(t *testing.T) {
	h := newHarness(t)
	h.pay = unknown
	id := h.session()
	h.post("/"+id, goodCard())
	h.pay = refuses(contract.ErrTypePaymentNotPossible)
	require.Contains(t, h.get("/"+id+"/status?payment="+h.paid[0]).Body.String(), `"checking":false,"not_possible":true`)
	h.pay = unknown
	h.post("/"+id, goodCard())
	h.pay = refuses(contract.ErrTypePaymentNotPossible)
	h.requireRedirect(h.get("/"+id+"?payment="+h.paid[len(h.paid)-1]), "/checkout/"+id+"?not_possible") // without JavaScript
}

func TestPay_FormThatWasOvertakenIsNotPaid(t *testing.T) {
	h := newHarness(t)
	h.pay = declines
	id := h.session()
	form := goodCard()
	form.Set(fieldAttempt, "0")
	h.post("/"+id, form)
	form.Set(fieldName, "Ada Example")
	w := h.post("/"+id, form) // from a second tab
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), english.Texts.OvertakenText)
	require.NotContains(t, w.Body.String(), english.Texts.InsufficientFunds, "the answer to the other tab")
	require.Contains(t, w.Body.String(), `value="Ada Example"`)
	require.Len(t, h.paid, 1)
	form.Set(fieldPayment, h.paid[0])
	h.requireRedirect(h.post("/"+id, form), "/checkout/"+id) // sent twice
	require.Len(t, h.paid, 1)
	form.Del(fieldPayment)
	form.Set(fieldAttempt, "1")
	h.post("/"+id, form)
	require.Len(t, h.paid, 2)
}

// A double click without JavaScript sends the form again before the first answer.
func TestPay_AFormSentTwiceAtOnceIsOnePayment(t *testing.T) {
	h := newHarness(t)
	id, form, txn := h.session(), goodCard(), checkout.NewID(checkout.PrefixTransaction)
	form.Set(fieldPayment, txn)
	sent, answers := make(chan struct{}), make(chan string, 4)
	h.pay = func(h *harness, ref checkout.Ref, txn string) (contract.PaymentResult, error) {
		<-sent
		_, err := h.store.Sessions.BeginPayment(h.t.Context(), ref, txn, checkout.Quote{Rate: money.MustRate("1.08")}, txn)
		return contract.PaymentResult{Outcome: checkout.OutcomeProcessing}, err
	}
	for range cap(answers) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testURL+"/"+id, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		go func() {
			w := httptest.NewRecorder()
			h.handler.ServeHTTP(w, r)
			answers <- w.Header().Get("Location")
		}()
	}
	assert.Eventually(t, func() bool {
		h.cards.mu.Lock()
		defer h.cards.mu.Unlock()
		return len(h.cards.seen) == cap(answers)
	}, 10*time.Second, time.Millisecond)
	close(sent)
	for range cap(answers) {
		require.Equal(t, "/checkout/"+id, <-answers)
	}
	require.Equal(t, []string{txn}, slices.Compact(h.paid))
	require.Equal(t, 1, h.read(id).Attempts)
}

func TestPay_AnotherSessionsPaymentIsNotTouched(t *testing.T) {
	h := newHarness(t)
	h.pay = takes
	first, second := h.session(), h.session()
	h.post("/"+first, goodCard())
	form := goodCard()
	form.Set(fieldPayment, h.paid[0])
	h.requireRedirect(h.post("/"+second, form), "/checkout/"+second+"?overtaken")
	require.Len(t, h.paid, 1)
	require.Zero(t, h.read(second).Attempts)
	form.Set(fieldPayment, "txn_invented")
	h.post("/"+second, form)
	require.Len(t, h.paid, 2)
	require.NotEqual(t, "txn_invented", h.paid[1])
}

// TestPay_AChosenIDOfAnotherTimeOrCellIsNotUsed: lists are sorted by id, and a proxy of several cells reads it.
func TestPay_AChosenIDOfAnotherTimeOrCellIsNotUsed(t *testing.T) {
	h := newHarness(t)
	h.pay = takes
	now := time.Now()
	near := checkout.FirstID(checkout.PrefixTransaction, now.Add(-checkout.ClockSkew+time.Minute))
	for chosen, used := range map[string]bool{
		near: true, checkout.FirstID(checkout.PrefixTransaction, now.Add(checkout.ClockSkew-time.Minute)): true,
		"txn_" + strings.Repeat("0", 26): false, "txn_" + strings.Repeat("z", 26): false, "txn_7" + strings.Repeat("z", 25): false,
		checkout.FirstID(checkout.PrefixTransaction, now.Add(-checkout.ClockSkew-time.Minute)): false,
		checkout.FirstID(checkout.PrefixTransaction, now.Add(checkout.ClockSkew+time.Minute)):  false,
		near[:14] + "01" + near[16:]: false,
	} {
		form := goodCard()
		form.Set(fieldPayment, chosen)
		h.paid = nil
		h.post("/"+h.session(), form)
		require.Len(t, h.paid, 1)
		require.Equal(t, used, chosen == h.paid[0], chosen)
		made, ok := checkout.IDTime(checkout.PrefixTransaction, h.paid[0])
		require.True(t, ok)
		require.WithinDuration(t, time.Now(), made, checkout.ClockSkew)
	}
}

func TestPay_FaultsAreShownWithoutTheCard(t *testing.T) {
	h := newHarness(t)
	id := h.session()
	w := h.post("/"+id, url.Values{fieldCardNumber: {canaryCard[:15] + "1"}, fieldExp: {"01/20"}, fieldCVC: {"98"}, fieldEmail: {"ada@"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	body := w.Body.String()
	for _, want := range []string{english.Texts.NumberBad, english.Texts.ExpPast, english.Texts.CVCThree, english.Texts.EmailBad, `value="ada@"`, `value="01 / 20"`} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, canaryCard[:15])
	require.NotContains(t, body, `value="98"`)
	require.Equal(t, 4, strings.Count(body, `aria-invalid="true"`))
	require.Regexp(t, `id="email"[^>]* autofocus`, body, "the first error has the focus")
	require.Equal(t, 1, strings.Count(body, " autofocus"))
	require.Empty(t, h.paid)

	// A card typed into the wrong fields does not come back either.
	w = h.post("/"+id, url.Values{fieldEmail: {canaryCard}, fieldExp: {canaryCard}, fieldCVC: {canaryCard}, fieldCardNumber: {canaryCard + "x"}, fieldAttempt: {"0"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
}

func TestPay_CardNetworkAway(t *testing.T) {
	h := newHarness(t)
	h.cards.err = errors.New("quotes " + canaryCard)
	w := h.post("/"+h.session(), goodCard())
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), english.Texts.NetworkAway)
	require.NotContains(t, h.log.String(), canaryCard)
	require.Contains(t, h.log.String(), "*errors.errorString", "the class of the error says what is wrong")
}
