package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// keyed lets only callers with a key that may do this to the resource through
// to h. It comes before anything of the request is looked at, and asks storage
// each time, so that a revoked key fails at once. Source: interface document,
// "Authentication" and "Errors".
func (s *Server) keyed(resource string, h handler) handler {
	return func(r *http.Request) (status int, body any, err error) {
		kind, write := storage.RequestRead, r.Method != http.MethodGet
		if write {
			kind = storage.RequestWrite
		}
		turn, err := s.admit(r, kind)
		if err != nil {
			return 0, nil, err
		}
		defer turn.Leave(false)
		if !callerFrom(r.Context()).Key.Scopes.Allow(resource, write) {
			return 0, nil, forbidden("The key's scopes do not allow this: it needs " + resource + ":" + string(kind) + ".")
		}
		if r.Method == http.MethodPost {
			return s.once(r, h)
		}
		return h(r)
	}
}

// admit waits for the turn of whoever makes the request and finds out who it is.
func (s *Server) admit(r *http.Request, kind storage.RequestKind) (_ *limit.Turn, err error) {
	owner := s.ownerOf(r)
	turn, err := s.enter(r, owner, kind)
	if err != nil {
		return nil, err
	}
	kept := false
	defer func() { // after a panic, too
		if !kept {
			turn.Leave(comesTooOften(err))
		}
	}()
	if err = s.authenticate(r, kind); err != nil {
		return nil, err
	}
	merchantID := callerFrom(r.Context()).Merchant.ID
	if kept = owner == merchantID; kept {
		return turn, nil
	}
	kept = true
	turn.Leave(false) // the key's first request here
	return s.enter(r, merchantID, kind)
}

// enter waits for owner's turn.
func (s *Server) enter(r *http.Request, owner string, kind storage.RequestKind) (*limit.Turn, error) {
	turn, err := s.Shares.Enter(r.Context(), owner+" "+string(kind))
	if errors.Is(err, limit.ErrBusy) {
		err = &limit.TooOftenError{Wait: time.Second}
	}
	return turn, err
}

// ownerOf is whose share of this process a request uses: that of the merchant
// whose key it has, as far as this process has seen the key, else that of its
// address. It decides about nothing else, so it need not ask storage.
func (s *Server) ownerOf(r *http.Request) string {
	if hash, ok := bearerHash(r.Header.Values("Authorization")); ok {
		if merchantID, seen := s.seen.merchant(hash); seen {
			return merchantID
		}
	}
	return limit.Address(r)
}

// comesTooOften reports whether err refuses a request because of how many there are,
// or because of a key that is not valid.
func comesTooOften(err error) bool {
	kind := failure.KindOf(err)
	return kind == failure.RateLimited || kind == failure.Unauthorized
}

// seenKeys are the merchants of the keys that were valid when this process saw them.
type seenKeys struct {
	mu        sync.Mutex
	merchants map[string]string // by the hash of the key
}

const maxSeenKeys = 10_000 // then it begins anew

func (k *seenKeys) merchant(hash []byte) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	merchantID, ok := k.merchants[string(hash)]
	return merchantID, ok
}

func (k *seenKeys) add(hash []byte, merchantID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.merchants == nil || len(k.merchants) >= maxSeenKeys {
		k.merchants = map[string]string{}
	}
	k.merchants[string(hash)] = merchantID
}

// authenticate finds the caller and takes a token from the bucket of its key, or
// from that of the address when there is no valid key.
func (s *Server) authenticate(r *http.Request, kind storage.RequestKind) error {
	ctx, ex := r.Context(), exchangeFrom(r.Context())
	caller, allowance, err := storage.Caller{}, storage.Allowance{}, checkout.ErrAPIKey
	hash, ok := bearerHash(r.Header.Values("Authorization"))
	if ok {
		caller, allowance, err = s.Store.Authenticate(ctx, hash, kind, s.Limits.rates(kind))
	}
	if errors.Is(err, checkout.ErrAPIKey) {
		return s.refuseKey(r, err)
	}
	if err != nil {
		return err
	}
	s.seen.add(hash, caller.Merchant.ID)
	ex.caller, ex.allowance = caller, &allowance
	trace.SpanFromContext(ctx).SetAttributes(
		attribute.String("merchant_id", caller.Merchant.ID), attribute.String("mode", string(caller.Key.Mode)))
	if !allowance.OK {
		return &limit.TooOftenError{Wait: allowance.Wait}
	}
	return nil
}

// refuseKey answers a request without a valid key, and one that comes too often
// with a 429: guessing shall be slow.
func (s *Server) refuseKey(r *http.Request, err error) error {
	allowance, bucketErr := s.Store.AllowAddress(r.Context(), limit.Address(r), s.Limits.BadKeys)
	if bucketErr != nil {
		return bucketErr
	}
	if !allowance.OK {
		return &limit.TooOftenError{Wait: allowance.Wait}
	}
	return err
}

// Limits are how many requests a second keys may make. Source: api/decisions.md,
// "rate limit".
type Limits struct {
	Reads, Writes storage.Rates
	BadKeys       storage.Rate // requests without a valid key, per address
	Verify        storage.Rate // explanations of signatures, per merchant; DefaultLimits' when zero
}

// DefaultLimits are those of api/decisions.md.
var DefaultLimits = Limits{
	Reads:   storage.Rates{Test: storage.Rate{PerSecond: 25, Burst: 25}, Live: storage.Rate{PerSecond: 100, Burst: 100}},
	Writes:  storage.Rates{Test: storage.Rate{PerSecond: 25, Burst: 25}, Live: storage.Rate{PerSecond: 100, Burst: 100}},
	BadKeys: storage.Rate{PerSecond: 1, Burst: 100},
	Verify:  storage.Rate{PerSecond: 2.5, Burst: 25},
}

func (l Limits) rates(kind storage.RequestKind) storage.Rates {
	if kind == storage.RequestRead {
		return l.Reads
	}
	return l.Writes
}

// limitHeaders tell a caller how much it may still ask.
func limitHeaders(h http.Header, a storage.Allowance) {
	h.Set("RateLimit-Limit", strconv.Itoa(a.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(a.Remaining))
	h.Set("RateLimit-Reset", strconv.Itoa(wholeSeconds(a.Reset)))
}

// wholeSeconds rounds up: whoever waits that long has waited long enough.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// callerFrom returns who makes an authenticated request.
func callerFrom(ctx context.Context) storage.Caller { return exchangeFrom(ctx).caller }

// bearerHash reads the Authorization headers of a request: exactly one, the
// scheme in any case, one space, a key. It returns the hash of the key.
func bearerHash(headers []string) ([]byte, bool) {
	if len(headers) != 1 {
		return nil, false
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || strings.ContainsFunc(key, outsideKey) {
		return nil, false
	}
	return checkout.HashAPIKey(key)
}

func outsideKey(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
}
