package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// from sends a form from an address, or asks for a page when there is none.
func (d *desk) from(h http.Handler, address, path string, form url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	d.t.Helper()
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

func TestSignIn_GuessesOfOneIPv6NetworkCountTogether(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", checkout.RoleOwner)
	guess := url.Values{"email": {"ann@shop.example"}, "password": {"wrong"}}
	refused := 0
	for i := range 12 {
		if d.from(New(d.config), fmt.Sprintf("[2001:db8:1:2::%x]:80", i+1), "/signin", guess).Code == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Equal(t, 4, refused)
}

func TestSignIn_GuessesFromEverywhereAreSlowAndLockNobodyOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newMember(d.merchant, "ann@shop.example", checkout.RoleOwner)
	h := New(d.config)
	right := url.Values{"email": {"ann@shop.example"}, "password": {password}}
	first := d.from(h, "192.0.2.1:80", "/signin", right)
	require.Equal(t, http.StatusSeeOther, first.Code)
	refused := 0
	for i := range 70 {
		guess := url.Values{"email": {"ann@shop.example"}, "password": {"wrong"}}
		if d.from(h, fmt.Sprintf("198.51.100.%d:80", i), "/signin", guess).Code == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Positive(t, refused, "70 guesses from as many addresses")
	require.Equal(t, http.StatusTooManyRequests, d.from(h, "203.0.113.1:80", "/signin", right).Code, "a browser that nobody knows")
	require.Equal(t, http.StatusSeeOther, d.from(h, "203.0.113.2:80", "/signin", right, first.Result().Cookies()...).Code, "the browser of the owner")
	forged := &http.Cookie{Name: "known", Value: knownBrowser("another hash")}
	require.Equal(t, http.StatusTooManyRequests, d.from(h, "203.0.113.3:80", "/signin", right, forged).Code)
	require.Equal(t, http.StatusUnprocessableEntity, d.from(h, "203.0.113.4:80", "/signin", url.Values{"email": {"bob@shop.example"}}).Code, "another account")
}

// TestSignIn_ManyAtOnceAreRefusedEarly takes all places of the hashing, which other
// tests need, so it runs alone.
func TestSignIn_ManyAtOnceAreRefusedEarly(t *testing.T) {
	d := newDesk(t)
	h := New(d.config)
	statuses := make(chan int, 200)
	var wg sync.WaitGroup
	for i := range cap(statuses) {
		wg.Go(func() {
			guess := url.Values{"email": {fmt.Sprintf("m%d@shop.example", i)}, "password": {"wrong"}}
			statuses <- d.from(h, fmt.Sprintf("198.51.100.%d:80", i), "/signin", guess).Code
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

// TestBrand_LogosTakeTheirTurns takes the places of decoding, which other tests
// need, so it runs alone.
func TestBrand_LogosTakeTheirTurns(t *testing.T) {
	d := newDesk(t)
	owner := d.as(checkout.RoleOwner)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leave, err := decoding.Enter(ctx)
	require.NoError(t, err)
	var others sync.WaitGroup
	for range 2 * logosWaiting { // half of them have a place and no turn
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = decoding.Enter(ctx)
			}
		})
	}
	answer, err := owner.http.Do(owner.uploading(picture(t, 30, 10), "color", "#123456"))
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	cancel()
	others.Wait()
	leave()
	require.Equal(t, 303, owner.upload(picture(t, 30, 10), "color", "#123456").status)
}

func TestLimits_InvitationsAndInventedCookiesOfAnAddress(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	h := New(d.config)
	for i, path := range []string{"/invitation/x", "/test/", "/test/deliveries/stream", "/nowhere"} {
		refused := 0
		for range 300 {
			w := d.from(h, fmt.Sprintf("192.0.2.%d:80", i), path, nil, &http.Cookie{Name: "member", Value: "invented"})
			if w.Code == http.StatusTooManyRequests {
				require.NotEmpty(t, w.Header().Get("Retry-After"))
				refused++
			}
		}
		require.Positive(t, refused, path)
	}
	require.Equal(t, http.StatusOK, d.from(h, "192.0.2.0:80", "/static/dashboard.css", nil).Code, "the page for those who wait has its style")
}

func TestLimits_FormsOfAnAddress(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	h := New(d.config)
	refused := 0
	for range 100 {
		if d.from(h, "192.0.2.1:80", "/signout", url.Values{"a": {"b"}}).Code == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Positive(t, refused)
	require.Equal(t, http.StatusOK, d.from(h, "192.0.2.1:80", "/signin", nil).Code, "looking is another matter")
}

func TestStream_OnePersonHasFive(t *testing.T) {
	t.Parallel()
	var feed *storage.Feed
	s := plainSender(t, func(c *Config) {
		feed = c.Store.NewFeed()
		c.Feed = feed
	})
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { feed.Run(running); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	b := s.as(checkout.RoleViewer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 7 {
		got := b.stream(ctx)
		defer got.Body.Close()
		want := http.StatusOK
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		require.Equal(t, want, got.StatusCode, i)
	}
	other := s.as(checkout.RoleViewer).stream(ctx)
	defer other.Body.Close()
	require.Equal(t, http.StatusOK, other.StatusCode, "somebody else")
}
