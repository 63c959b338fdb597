package failure_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api"
	"example.com/checkout/api/dashboard"
	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/health"
	"example.com/checkout/api/hosted"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/runs/runstest"
)

const (
	password = "correct horse battery"
	pageURL  = "http://pay.example"
	deskURL  = "http://dashboard.example"
)

// service runs the three servers on one PostgreSQL. They reach it through a relay that the test can
// cut.
type service struct {
	t        *testing.T
	ctx      context.Context      // of the requests
	database storagetest.Database // without the relay
	relay    *relay
	temporal *runstest.Temporal
	log      *bytes.Buffer
	rest     http.Handler
	page     http.Handler
	desk     http.Handler

	key     string // API key
	cookies []*http.Cookie
	at      string // begins the address of each page of the merchant
	session string // id of a pending session
}

func newService(t *testing.T) *service {
	t.Parallel()
	s := &service{t: t, ctx: t.Context(), database: storagetest.New(t), temporal: &runstest.Temporal{}, log: &bytes.Buffer{}}
	u := s.address()
	s.relay = newRelay(t, u.Host)
	u.Host = s.relay.listener.Addr().String()
	relayed := s.database
	relayed.URL = u.String()
	store := relayed.Open(t, 4)
	log := slog.New(slog.NewJSONHandler(s.log, nil))
	client := &runs.Client{Temporal: s.temporal}

	checkAddress := func(_ context.Context, _ checkout.Mode, host string) error { panic("canary at " + host) }
	rate, shares := storage.Rate{PerSecond: 20, Burst: 200}, limit.NewShares(6)
	rates := storage.Rates{Test: rate, Live: rate}
	state := health.Starting("")
	state.SetChecks(store.Ping, health.Temporal(s.temporal))
	s.rest = api.New(api.Config{
		Store: api.StoreOf(store), Runs: client, CheckoutURL: pageURL, CheckAddress: checkAddress, SessionLifetime: checkout.SessionLifetime,
		Limits: api.Limits{Reads: rates, Writes: rates, BadKeys: rate, Verify: rate}, Shares: shares, Health: state, Log: log,
	})
	pages := limit.Rates{Requests: rate, Forms: rate}
	s.page = hosted.New(hosted.Config{
		People: store.People, Requests: store.Requests, Sessions: store.Sessions, Runs: client, TestCards: panics{}, CheckoutURL: pageURL, Limits: pages, Shares: shares, Log: log,
	})
	s.desk = dashboard.New(dashboard.Config{
		Store: dashboard.StoreOf(store), Runs: client, URL: deskURL, CheckoutURL: pageURL, CheckAddress: checkAddress, Limits: pages, Shares: shares, Log: log,
	})

	s.makeMerchant(store)
	return s
}

// makeMerchant makes a merchant with a key, somebody who is signed in, and a session.
func (s *service) makeMerchant(store *storage.Store) {
	ctx := s.t.Context()
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard", FeeBasisPoints: 100, PaymentAttempts: 3}
	require.NoError(s.t, store.Merchants.CreateMerchant(ctx, m, checkout.ModeTest, nil))
	s.key = merchant.NewAPIKey(checkout.ModeTest)
	owner := checkout.Owner{MerchantID: m.ID, Mode: checkout.ModeTest}
	require.NoError(s.t, store.Merchants.CreateAPIKey(ctx, merchant.APIKey{Ref: owner.Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "t"}, s.key))

	member := merchant.Member{ID: checkout.NewID(checkout.PrefixMember), MerchantID: m.ID, Email: "ann@shop.example", Role: merchant.RoleOwner}
	token, err := store.People.Invite(ctx, member, "test")
	require.NoError(s.t, err)
	_, err = login.Accept(ctx, store.People, token, password, "")
	require.NoError(s.t, err)
	signedIn := s.send(s.desk, deskURL+"/signin", url.Values{"email": {member.Email}, "password": {password}}, "")
	require.Equal(s.t, http.StatusSeeOther, signedIn.Code, signedIn.Body)
	s.at = "/m/" + m.ID
	s.cookies = signedIn.Result().Cookies()

	created := s.send(s.rest, "/v1/checkout", nil, `{"amount": 10.50, "currency": "USD", "payout_currency": "USDC"}`)
	require.Equal(s.t, http.StatusCreated, created.Code, created.Body)
	s.session = "cs_" + strings.SplitN(strings.SplitN(created.Body.String(), `"cs_`, 2)[1], `"`, 2)[0]
}

func (s *service) send(to http.Handler, address string, form url.Values, object string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	to.ServeHTTP(w, s.request(address, form, object))
	return w
}

// request is a form, an object of JSON, or a GET without either, of somebody who is signed in and has a key.
func (s *service) request(address string, form url.Values, object string) *http.Request {
	method, body, mediaType := http.MethodGet, "", ""
	switch {
	case form != nil:
		method, body, mediaType = http.MethodPost, form.Encode(), "application/x-www-form-urlencoded"
	case object != "":
		method, body, mediaType = http.MethodPost, object, "application/json"
	}
	r := httptest.NewRequestWithContext(s.ctx, method, address, strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	r.Header.Set("Authorization", "Bearer "+s.key)
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	return r
}

// exec changes the database behind the service's back. The connection stays open.
func (s *service) exec(sql string) {
	_, err := s.database.Connect(s.t).Exec(s.t.Context(), sql)
	require.NoError(s.t, err)
}

// address is that of the database, without the relay.
func (s *service) address() *url.URL {
	u, err := url.Parse(s.database.URL)
	require.NoError(s.t, err)
	return u
}

// asked are the answers of all faces to the question for the session, by address. They are asked at once: each may wait
// as long as it can.
func (s *service) asked() map[string]*httptest.ResponseRecorder {
	answers := map[string]*httptest.ResponseRecorder{}
	var asking sync.WaitGroup
	for address, server := range map[string]http.Handler{
		"/v1/checkout/" + s.session:                    s.rest,
		pageURL + "/" + s.session:                      s.page,
		pageURL + "/" + s.session + "/status":          s.page,
		deskURL + s.at + "/test/sessions/" + s.session: s.desk,
	} {
		got := httptest.NewRecorder()
		answers[address] = got
		asking.Go(func() { server.ServeHTTP(got, s.request(address, nil, "")) })
	}
	asking.Wait()
	return answers
}

// TestFaces_AnswerTheSameErrorWithTheSameStatus causes the same error below each server.
func TestFaces_AnswerTheSameErrorWithTheSameStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken func(s *service)
		want   int
	}{
		"nothing is wrong":                  {func(*service) {}, http.StatusOK},
		"there is no such session":          {func(s *service) { s.session = checkout.NewID(checkout.PrefixSession) }, http.StatusNotFound},
		"no session has such an id":         {func(s *service) { s.session = "cs_1" }, http.StatusNotFound},
		"PostgreSQL refuses connections":    {func(s *service) { s.relay.cut() }, http.StatusServiceUnavailable},
		"PostgreSQL does not answer":        {func(s *service) { s.relay.silent.Store(true) }, http.StatusServiceUnavailable},
		"PostgreSQL lets nobody in":         {(*service).shut, http.StatusServiceUnavailable},
		"somebody else holds a lock":        {func(s *service) { s.exec(`BEGIN; LOCK TABLE checkout_session`) }, http.StatusServiceUnavailable},
		"PostgreSQL is read-only":           {(*service).readOnly, http.StatusServiceUnavailable},
		"a table is missing, which is ours": {func(s *service) { s.exec(`ALTER TABLE checkout_session RENAME TO gone`) }, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			c.broken(s)
			for face, got := range s.asked() {
				require.Equal(t, c.want, got.Code, "%s: %s", face, s.log)
				if c.want >= 400 {
					require.NotContains(t, got.Body.String(), "checkout_session", face)
				}
				if c.want == http.StatusServiceUnavailable {
					require.NotEmpty(t, got.Header().Get("Retry-After"), face)
				}
			}
		})
	}
}

// TestFaces_AnAnswerToNobodyIsNoFault sends requests and goes away at once.
func TestFaces_AnAnswerToNobodyIsNoFault(t *testing.T) {
	s := newService(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = gone
	for face, got := range s.asked() {
		require.Equal(t, http.StatusServiceUnavailable, got.Code, face)
	}
	require.NotContains(t, s.log.String(), `"ERROR"`)
	require.NotContains(t, s.log.String(), `"WARN"`)
}

func (s *service) shut() {
	u := s.address()
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	server := storagetest.At(s.t, u.String())
	server.Exec(s.t, `ALTER DATABASE "`+name+`" ALLOW_CONNECTIONS false`)
	server.Exec(s.t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
}

func (s *service) readOnly() {
	s.exec(`ALTER DATABASE "` + strings.TrimPrefix(s.address().Path, "/") + `" SET default_transaction_read_only = on`)
	s.relay.hangUp()
}

// TestFaces_APanicIsA500 makes a handler of each server panic with a text that no page or log may
// show.
func TestFaces_APanicIsA500(t *testing.T) {
	s := newService(t)
	card := url.Values{"card_number": {"4242424242424242"}, "exp": {"12/40"}, "cvc": {"123"}, "email": {"a@example.com"}}
	hook := url.Values{"url": {"https://canary.example/"}, "events": {"checkout.completed"}}
	for face, got := range map[string]*httptest.ResponseRecorder{
		"REST API":    s.send(s.rest, "/v1/webhooks", nil, `{"url": "https://canary.example/", "events": ["checkout.completed"]}`),
		"hosted page": s.send(s.page, pageURL+"/"+s.session, card, ""),
		"dashboard":   s.send(s.desk, deskURL+s.at+"/test/webhooks", hook, ""),
	} {
		require.Equal(t, http.StatusInternalServerError, got.Code, face)
		require.NotEmpty(t, got.Body.String(), face)
		require.NotContains(t, got.Body.String(), "canary", face)
	}
	require.Equal(t, 3, strings.Count(s.log.String(), `"stack"`), s.log)
	require.NotContains(t, s.log.String(), "canary")
	require.NotContains(t, s.log.String(), "42424242") // the addresses in a stack may have 4242
}

// TestFaces_WhatTemporalSaysIsTheSameForAll makes Temporal refuse, or not answer. The hosted page
// shows the payment's state instead of an error.
func TestFaces_WhatTemporalSaysIsTheSameForAll(t *testing.T) {
	s := newService(t)
	for name, err := range map[string]error{
		"Temporal is away":        serviceerror.NewUnavailable("10.1.1.1 is down"),
		"Temporal is slow":        context.DeadlineExceeded,
		"Temporal is overrun":     serviceerror.NewResourceExhausted(0, "too many"),
		"Temporal says who knows": errors.New("inner words"),
	} {
		s.temporal.Update = func(client.UpdateWorkflowOptions) error { return err }
		for face, got := range map[string]*httptest.ResponseRecorder{
			"REST API":  s.send(s.rest, "/v1/checkout/"+s.session+"/expire", nil, "{}"),
			"dashboard": s.send(s.desk, deskURL+s.at+"/test/sessions/"+s.session+"/expire", url.Values{}, ""),
		} {
			require.Equal(t, http.StatusServiceUnavailable, got.Code, "%s: %s", face, name)
			require.NotContains(t, got.Body.String(), err.Error())
		}
	}
}

// panics is a card network with a fault, which quotes the card.
type panics struct{ checkout.CardNetwork }

func (panics) Tokenize(_ context.Context, c checkout.Card) (string, checkout.PaymentMethod, error) {
	panic(fmt.Errorf("canary card %s", c.Number))
}

// relay forwards connections to PostgreSQL until it is cut.
type relay struct {
	listener net.Listener
	silent   atomic.Bool // lets nothing through any more
	mu       sync.Mutex
	conns    []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{listener: listener}
	t.Cleanup(r.cut)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{Timeout: time.Minute}).Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, near, far)
			r.mu.Unlock()
			go r.forward(far, near)
			go r.forward(near, far)
		}
	}()
	return r
}

// forward passes on what comes until one side hangs up. A silent relay drops it.
func (r *relay) forward(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !r.silent.Load() {
			_, _ = to.Write(buffer[:n]) // after an error the next read ends
		}
	}
}

// cut refuses every connection from now on, and ends those that are there.
func (r *relay) cut() {
	_ = r.listener.Close() // the second time it is already closed
	r.hangUp()
}

func (r *relay) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close() // it may have gone already
	}
	r.conns = nil
}

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}
