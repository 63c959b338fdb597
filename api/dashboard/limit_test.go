package dashboard

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/passhash"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/merchant"
)

// stopRefill keeps tokens from coming back, so that the number of refusals does not depend on the speed of the test.
func (d *desk) stopRefill() {
	pgtemp.StopTime(d.t, d.URL, "token_bucket", "at")
}

// from sends a form from an address, or a GET without a form.
func (d *desk) from(h http.Handler, address, path string, form url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(d.t.Context(), method, "http://dashboard.example"+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// signsIn gives the password of an account from an address.
func (d *desk) signsIn(
	h http.Handler, address, email, password string, cookies ...*http.Cookie,
) *httptest.ResponseRecorder {
	return d.from(h, address, "/signin", url.Values{"email": {email}, "password": {password}}, cookies...)
}

// guess gives wrong passwords of ceo from n addresses, and returns how many guesses were refused for their number.
func (d *desk) guess(h http.Handler, n int) (refused int) {
	for i := range n {
		if d.signsIn(h, fmt.Sprintf("198.51.100.%d:80", i), ceo, "wrong").Code == http.StatusTooManyRequests {
			refused++
		}
	}
	return refused
}

func TestSignIn_GuessesOfOneIPv6NetworkCountTogether(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	d.newMember(d.merchant, ceo, merchant.RoleOwner)
	h := New(d.config)
	for i := range 12 {
		require.Equal(t, i >= 8, d.signsIn(h, fmt.Sprintf("[2001:db8:1:2::%x]:80", i+1), ceo, "wrong").Code == http.StatusTooManyRequests, i)
	}
}

func TestSignIn_GuessesFromEverywhereAreSlowAndLockNobodyOut(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	d.newMember(d.merchant, ceo, merchant.RoleOwner)
	h := New(d.config)
	known := d.signsIn(h, "192.0.2.1:80", ceo, password).Result().Cookies()
	require.Equal(t, 70-59, d.guess(h, 70), "of 70 guesses from as many addresses; the owner took a token before")
	require.Equal(t, http.StatusTooManyRequests, d.signsIn(h, "203.0.113.1:80", ceo, password).Code, "a browser that nobody knows")
	require.Equal(t, http.StatusSeeOther, d.signsIn(h, "203.0.113.2:80", ceo, password, known...).Code, "the browser of the owner")

	d.newMemberWith(d.other, ceo, merchant.RoleOwner, other)
	there := url.Values{"email": {ceo}, "password": {other}, "merchant": {d.other}}
	both := d.from(h, "203.0.113.5:80", "/signin", there, known...)
	require.Equal(t, http.StatusTooManyRequests, both.Code, "not known at that merchant: an address has one bucket")
	d.exec(`DELETE FROM token_bucket`)
	both = d.from(h, "203.0.113.5:80", "/signin", there, known...)
	require.Equal(t, http.StatusSeeOther, both.Code)
	d.guess(h, 70)
	for _, password := range []string{password, other} {
		require.Equal(t, http.StatusSeeOther, d.signsIn(h, "203.0.113.6:80", ceo, password, both.Result().Cookies()...).Code, "known at both")
	}

	d.newMember(d.merchant, "carl@shop.example", merchant.RoleOwner)
	carl := d.signsIn(h, "203.0.113.7:80", "carl@shop.example", password).Result().Cookies()
	require.Equal(t, http.StatusTooManyRequests, d.signsIn(h, "203.0.113.3:80", ceo, password, carl...).Code, "known at another account")
	require.Equal(t, http.StatusUnprocessableEntity, d.signsIn(h, "203.0.113.4:80", "bob@shop.example", "").Code, "another account")
}

// TestSignIn_ManyAtOnceAreRefusedEarly takes all places for hashing. Other tests need them, so it
// runs alone.
func TestSignIn_ManyAtOnceAreRefusedEarly(t *testing.T) {
	strongHashes()
	t.Cleanup(func() { passhash.Weaken() })
	d := newDeskAlone(t)
	h := New(d.config)
	statuses := make(chan int, 200)
	var wg sync.WaitGroup
	for i := range cap(statuses) {
		wg.Go(func() {
			statuses <- d.signsIn(h, fmt.Sprintf("198.51.100.%d:80", i), fmt.Sprintf("m%d@shop.example", i), "wrong").Code
		})
	}
	wg.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	require.Positive(t, count[http.StatusServiceUnavailable], count)
	require.Positive(t, count[http.StatusUnprocessableEntity], count)
	require.Len(t, count, 2, count)
	require.Contains(t, d.from(h, "192.0.2.9:80", "/signin", nil).Body.String(), "Sign in")
}

// TestLimits_SlowFormsKeepNobodyWaiting: more clients than an address has turns begin a form and do not go on. Another
// person of the address gets a page and signs in.
func TestLimits_SlowFormsKeepNobodyWaiting(t *testing.T) {
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", merchant.RoleOwner)
	h := New(d.config)
	const address = "192.0.2.1:80"
	var slow sync.WaitGroup
	var ends []io.Closer
	defer func() {
		for _, end := range ends {
			_ = end.Close() // never fails
		}
		slow.Wait()
	}()
	for i := range 3 * share {
		form, send := io.Pipe()
		ends = append(ends, send)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://dashboard.example/signin", form)
		r.RemoteAddr = address
		r.Header.Set("Content-Type", []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=x"}[i%2])
		slow.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
		arrived := make(chan error, 1)
		go func() {
			_, err := io.WriteString(send, "email") // returns when it is read
			arrived <- err
		}()
		select {
		case err := <-arrived:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "the form waits for the slow ones before it is read", i)
		}
	}
	require.Equal(t, http.StatusOK, d.from(h, address, "/signin", nil).Code)
	require.Equal(t, http.StatusSeeOther, d.signsIn(h, address, "ann@shop.example", password).Code)
}

// TestBrand_LogosTakeTheirTurns takes the places for decoding. Other tests need them, so it runs
// alone.
func TestBrand_LogosTakeTheirTurns(t *testing.T) {
	d := newDeskAlone(t)
	owner := d.as(merchant.RoleOwner)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var others sync.WaitGroup
	entered := make(chan struct{})
	others.Go(func() {
		_ = decoding.Do(ctx, func() {
			close(entered)
			<-ctx.Done()
		})
	})
	<-entered
	for range 2 * logosWaiting { // half of them have a place and no turn
		others.Go(func() {
			for ctx.Err() == nil {
				_ = decoding.Do(ctx, func() {})
			}
		})
	}
	answer := must.Get(owner.http.Do(owner.uploading(picture(t, 30, 10), "color", "#123456")))(t)
	defer answer.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	cancel()
	others.Wait()
	owner.upload(picture(t, 30, 10), "color", "#123456").is(303)
}

// TestBrand_ASlowUploadKeepsNobodyWaiting sends half of a logo. Another merchant's logo is decoded
// meanwhile.
func TestBrand_ASlowUploadKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	slow, d := newDeskAlone(t), newDeskAlone(t)
	sender := slow.as(merchant.RoleOwner)
	r := sender.uploading(picture(t, 30, 10))
	body := r.Body
	half := io.LimitReader(body, r.ContentLength/2)
	stalled, send := io.Pipe()
	r.Body = io.NopCloser(io.MultiReader(half, stalled, body))
	answered := make(chan int, 1)
	go func() {
		answer, err := sender.http.Do(r)
		if err != nil {
			answered <- 0
			return
		}
		defer answer.Body.Close()
		answered <- answer.StatusCode
	}()
	require.Eventually(t, func() bool {
		turn, ok := decodingOf.TryEnter(slow.merchant)
		if ok {
			turn.Leave(false)
		}
		return !ok
	}, time.Minute, 10*time.Millisecond, "the slow one has its merchant's turn")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	owner := d.as(merchant.RoleOwner)
	answer := must.Get(owner.http.Do(owner.uploading(picture(t, 30, 10)).WithContext(ctx)))(t)
	defer answer.Body.Close()
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.NoError(t, send.Close())
	require.Equal(t, http.StatusSeeOther, <-answered)
}

// TestLimits_ACrowdWaitsAtTheEntrance takes the entrance. Other tests need it, so it runs alone.
func TestLimits_ACrowdWaitsAtTheEntrance(t *testing.T) {
	d := newDeskAlone(t)
	h := New(d.config)
	require.NoError(t, entrance.Acquire(t.Context(), 2))
	var (
		wg    sync.WaitGroup
		shown atomic.Int32
	)
	for i := range 20 {
		wg.Go(func() {
			if d.from(h, fmt.Sprintf("198.51.100.%d:80", i), "/signin", nil).Code == http.StatusOK {
				shown.Add(1)
			}
		})
	}
	time.Sleep(200 * time.Millisecond) // no event tells that a thing did not happen
	require.Zero(t, shown.Load(), "nobody has come in")
	entrance.Release(2)
	wg.Wait()
	require.EqualValues(t, 20, shown.Load())
}

func TestLimits_InvitationsAndInventedCookiesOfAnAddress(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	h := New(d.config)
	for i, path := range []string{"/invitation/x", "/test/", "/test/deliveries.csv", "/nowhere"} {
		refused := 0
		for range 300 {
			w := d.from(h, fmt.Sprintf("192.0.2.%d:80", i), path, nil, &http.Cookie{Name: "member", Value: "invented"})
			if w.Code == http.StatusTooManyRequests {
				require.NotEmpty(t, w.Header().Get("Retry-After"))
				refused++
			}
		}
		require.Equal(t, 100, refused, path)
	}
	require.Equal(t, http.StatusOK, d.from(h, "192.0.2.0:80", "/static/dashboard.css", nil).Code, "the page for those who wait has its style")
}

func TestLimits_FormsOfAnAddress(t *testing.T) {
	d := newDesk(t)
	d.stopRefill()
	h := New(d.config)
	refused := 0
	for range 100 {
		if d.from(h, "192.0.2.1:80", "/signout", url.Values{"a": {"b"}}).Code == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Equal(t, 40, refused)
	require.Equal(t, http.StatusOK, d.from(h, "192.0.2.1:80", "/signin", nil).Code, "looking is another matter")
}

func TestDownloads_OnePersonHasFiveAtOnce(t *testing.T) {
	d := newDesk(t)
	s := newServer(d.config)
	signedIn := func(email string) (merchant.Member, func() int) {
		member := d.newMember(d.merchant, email, merchant.RoleViewer)
		cookies := d.signsIn(s.router, "192.0.2.1:80", email, password).Result().Cookies()
		return member, func() int {
			return d.from(s.router, "192.0.2.1:80", "/m/"+d.merchant+"/test/sessions.csv", nil, cookies...).Code
		}
	}
	ann, annDownloads := signedIn("ann@shop.example")
	_, bobDownloads := signedIn("bob@shop.example")
	for range 4 {
		_, ok := s.downloads.TryEnter(ann.ID)
		require.True(t, ok)
	}
	for range 2 {
		require.Equal(t, http.StatusOK, annDownloads(), "the fifth, which ends")
	}
	last, ok := s.downloads.TryEnter(ann.ID)
	require.True(t, ok)
	require.Equal(t, http.StatusTooManyRequests, annDownloads())
	require.Equal(t, http.StatusOK, bobDownloads(), "somebody else")
	last.Leave(false)
	require.Equal(t, http.StatusOK, annDownloads())
}
