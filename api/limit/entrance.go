package limit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"example.com/checkout/api/web"
	"example.com/checkout/storage"
)

// TooOftenError refuses a request because its caller asks too often, or for too
// much at once. Nothing was done.
type TooOftenError struct {
	Wait time.Duration // until the next request may be let through
}

func (e *TooOftenError) Error() string { return fmt.Sprintf("too many requests: wait %s", e.Wait) }

// Rates are how often one address may ask a server.
type Rates struct {
	Requests storage.Rate // that read PostgreSQL
	Forms    storage.Rate // forms, besides
}

// Or returns r with the rates of other where r has none.
func (r Rates) Or(other Rates) Rates {
	if r.Requests.Burst == 0 {
		r.Requests = other.Requests
	}
	if r.Forms.Burst == 0 {
		r.Forms = other.Forms
	}
	return r
}

// Entrance lets the requests of an address in that are not too many: at once, by
// Shares of this process, and in the course of time, by Rates that hold across
// processes. A cookie counts for nothing, because anybody can invent one.
type Entrance struct {
	Store  *storage.Store
	Shares *Shares
	Rates  Rates
	// Server names the buckets. Its requests and forms count apart from another's.
	Server string
	// FormsWait says that a form waits for another system most of the time: it
	// keeps no turn once it is in.
	FormsWait bool
	// Counting bounds how many requests are counted at once; nil: all that come.
	Counting *semaphore.Weighted
}

// requests is the bucket of an address's requests, Forms that of its forms. The
// first comes before the second, as storage.Store.Allow demands.
func (e *Entrance) requests(address string) storage.Bucket {
	return storage.Bucket{Owner: address, Kind: e.Server, Rate: e.Rates.Requests}
}

// Forms is the bucket of the forms of r's address.
func (e *Entrance) Forms(r *http.Request) storage.Bucket {
	return storage.Bucket{Owner: Address(r), Kind: e.Server + "_form", Rate: e.Rates.Forms}
}

// GiveBackForm returns the token of a form that turned out not to count.
func (e *Entrance) GiveBackForm(ctx context.Context, r *http.Request) error {
	return e.Store.GiveBack(ctx, e.Forms(r))
}

// Enter waits for the turn of r's address and takes a token of its requests and one
// of each of more, in the order of their kinds. It returns *TooOftenError, or why
// nobody could say. The caller ends the turn.
func (e *Entrance) Enter(r *http.Request, more ...storage.Bucket) (_ *Turn, err error) {
	address := Address(r)
	turn, err := e.Shares.Enter(r.Context(), address)
	if errors.Is(err, ErrBusy) {
		return nil, &TooOftenError{Wait: time.Second}
	}
	if err != nil {
		return nil, err
	}

	refused, kept := false, false
	defer func() { // after a panic, too
		if !kept {
			turn.Leave(refused)
		}
	}()
	got, err := e.count(r.Context(), append([]storage.Bucket{e.requests(address)}, more...))
	if err != nil {
		return nil, err
	}
	if !got.OK {
		refused = true
		return nil, &TooOftenError{Wait: got.Wait}
	}
	kept = true
	return turn, nil
}

// count takes a token from each of the buckets when there is room for that.
func (e *Entrance) count(ctx context.Context, buckets []storage.Bucket) (storage.Allowance, error) {
	if e.Counting != nil {
		if err := e.Counting.Acquire(ctx, 1); err != nil {
			return storage.Allowance{}, err
		}
		defer e.Counting.Release(1)
	}
	return e.Store.Allow(ctx, buckets...)
}

// Limited is h for the requests that Enter lets in. Each of counts is another
// bucket that a request counts for.
func (e *Entrance) Limited(h web.Handler, counts ...func(*http.Request) storage.Bucket) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		more := make([]storage.Bucket, len(counts))
		for i, bucket := range counts {
			more[i] = bucket(r)
		}
		turn, err := e.Enter(r, more...)
		if err != nil {
			return err
		}
		defer turn.Leave(false)
		if r.Method == http.MethodPost && e.FormsWait {
			turn.Leave(false)
		}
		return h(w, r)
	}
}
