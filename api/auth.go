package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/checkout/api/action"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// anyResource needs no scope: every valid key may ask.
const anyResource = ""

// requireKey calls h only for a key whose scopes allow this access to the resource. It checks the key before it looks
// at the rest of the request. It asks storage each time, so that a revoked key fails at once. Source: api/interface.md,
// "Authentication" and "Errors".
func (s *Server) requireKey(resource string, h handler) handler {
	return func(r *http.Request) (status int, body any, err error) {
		kind, write := storage.RequestRead, r.Method != http.MethodGet && r.Method != http.MethodHead
		if write {
			kind = storage.RequestWrite
		}
		turn, err := s.admitCaller(r, kind)
		if err != nil {
			return 0, nil, err
		}
		defer turn.Leave(false)
		if resource != anyResource && !callerFrom(r.Context()).Key.Scopes.Allow(resource, write) {
			return 0, nil, forbidden("The key lacks the scope for this request: it needs " + resource + ":" + string(kind) + ".")
		}
		if r.Method == http.MethodPost {
			return s.serveOnce(r, turn, h)
		}
		return h(r)
	}
}

// admitCaller waits for the caller's turn and authenticates the caller.
func (s *Server) admitCaller(r *http.Request, kind storage.RequestKind) (_ *limit.Turn, err error) {
	owner := s.ownerOf(r)
	turn, err := s.awaitTurn(r, owner, kind)
	if err != nil {
		return nil, err
	}

	kept := false
	defer func() { // also runs after a panic
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
	turn.Leave(false) // this process sees the key for the first time
	return s.awaitTurn(r, merchantID, kind)
}

// awaitTurn waits for owner's turn.
func (s *Server) awaitTurn(r *http.Request, owner string, kind storage.RequestKind) (*limit.Turn, error) {
	turn, err := s.Shares.Enter(r.Context(), owner+" "+string(kind))
	if errors.Is(err, limit.ErrBusy) {
		err = &limit.TooOftenError{Wait: time.Second}
	}
	return turn, err
}

// ownerOf returns the owner of the share that a request uses: the merchant's id when this process
// has seen the key, else the client's address. It is used for nothing else, so it need not ask
// storage.
func (s *Server) ownerOf(r *http.Request) string {
	if hash, ok := bearerHash(r.Header.Values("Authorization")); ok {
		if merchantID, seen := s.seen.merchant(hash); seen {
			return merchantID
		}
	}
	return limit.Address(r)
}

// comesTooOften reports whether err refuses a request because of a rate limit or an invalid key.
func comesTooOften(err error) bool {
	kind := failure.KindOf(err)
	return kind == failure.RateLimited || kind == failure.Unauthorized
}

// seenKeys maps valid keys that this process has seen to their merchants.
type seenKeys struct {
	mu        sync.Mutex
	merchants map[string]string // key: hash of the API key
}

const maxSeenKeys = 10_000 // a full map is emptied

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

// authenticate finds the caller and takes a token from the bucket of its key. Without a valid key
// it takes the token from the bucket of the client's address.
func (s *Server) authenticate(r *http.Request, kind storage.RequestKind) error {
	ctx, ex := r.Context(), exchangeFrom(r.Context())
	caller, allowance, err := storage.Caller{}, storage.Allowance{}, checkout.ErrAPIKey
	hash, ok := bearerHash(r.Header.Values("Authorization"))
	if ok {
		caller, allowance, err = s.Store.Merchants.Authenticate(ctx, hash, kind, s.Limits.rates(kind))
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

// refuseKey refuses a request without a valid key. It returns *limit.TooOftenError (429) when the
// address sends too many of them, because guessing keys must be slow.
func (s *Server) refuseKey(r *http.Request, err error) error {
	allowance, bucketErr := s.Store.Requests.AllowAddress(r.Context(), limit.Address(r), s.Limits.BadKeys)
	if bucketErr != nil {
		return bucketErr
	}
	if !allowance.OK {
		return &limit.TooOftenError{Wait: allowance.Wait}
	}
	return err
}

// Limits are the numbers of requests per second that a key may make. Source: api/decisions/keys.md, "rate limit".
type Limits struct {
	Reads, Writes storage.Rates
	BadKeys       storage.Rate // requests without a valid key, per address
	Verify        storage.Rate // explanations of signatures, per merchant
}

func (l Limits) rates(kind storage.RequestKind) storage.Rates {
	if kind == storage.RequestRead {
		return l.Reads
	}
	return l.Writes
}

// limitHeaders sets the headers that show the limit, the requests left and the seconds until reset.
func limitHeaders(h http.Header, a storage.Allowance) {
	h.Set("RateLimit-Limit", strconv.Itoa(a.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(a.Remaining))
	h.Set("RateLimit-Reset", strconv.Itoa(int(math.Ceil(a.Reset.Seconds())))) // no client waits too short a time
}

// callerFrom returns the caller of an authenticated request.
func callerFrom(ctx context.Context) storage.Caller { return exchangeFrom(ctx).caller }

// actor returns the request's API key as the audit log has it.
func actor(r *http.Request) action.By {
	key := callerFrom(r.Context()).Key
	return action.By{
		Actor: fmt.Sprintf("API key “%s” …%s (%s)", key.Label, key.Last4, key.ID), Address: limit.RemoteIP(r),
	}
}

// bearerHash returns the hash of the key in the Authorization headers. There must be exactly one
// header: the scheme in any case, one space, a key.
func bearerHash(headers []string) ([]byte, bool) {
	if len(headers) != 1 {
		return nil, false
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || strings.ContainsFunc(key, outsideKey) {
		return nil, false
	}
	return merchant.HashAPIKey(key)
}

func outsideKey(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
}
