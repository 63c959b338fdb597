// Package limit keeps one caller from using what all callers share. It names the caller of a
// request, bounds the requests of one caller at once, and bounds heavy work.
package limit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/semaphore"

	"example.com/checkout/api/web"
	"example.com/checkout/storage"
)

// TooOftenError refuses a request because its caller sends too many requests, or too many at once.
// Nothing was done.
type TooOftenError struct {
	Wait time.Duration // until the caller may try again
}

func (e *TooOftenError) Error() string { return fmt.Sprintf("too many requests: wait %s", e.Wait) }

// Rates are the rates for one address at one server.
type Rates struct {
	Requests storage.Rate // requests that read PostgreSQL
	Forms    storage.Rate // forms, counted in addition
}

// Entrance limits the requests of an address. Shares limits how many run at once in this process.
// Rates limits how many come over time, in all processes together. Cookies do not count, because
// any client can invent one.
type Entrance struct {
	Requests *storage.Requests
	Shares   *Shares
	Rates    Rates
	// Server names the buckets. Each server counts its own requests and forms.
	Server string
	// FormsWait is set when a form mostly waits for another system. The form then gives its turn
	// back as soon as Enter lets it in.
	FormsWait bool
	// ReadFirst selects the forms that are read before the handler has the turn: a client may send slowly, and others
	// share its address. The server bounds their size. nil: none.
	ReadFirst func(*http.Request) bool
	// Counting bounds how many requests are counted at once; nil means no bound.
	Counting *semaphore.Weighted
}

// requests returns the bucket for requests of an address. Its kind sorts before the kind of Forms,
// the order that storage.Requests.Allow demands.
func (e *Entrance) requests(address string) storage.Bucket {
	return storage.Bucket{Owner: address, Kind: e.Server, Rate: e.Rates.Requests}
}

// Forms returns the bucket for forms of r's address.
func (e *Entrance) Forms(r *http.Request) storage.Bucket {
	return storage.Bucket{Owner: Address(r), Kind: e.Server + "_form", Rate: e.Rates.Forms}
}

// GiveBackForm returns the token of a form that does not count after all.
func (e *Entrance) GiveBackForm(ctx context.Context, r *http.Request) error {
	return e.Requests.GiveBack(ctx, e.Forms(r))
}

// Enter waits for the turn of r's address. It takes a token from the address's bucket and from each
// bucket of more, in the order of their kinds. It returns *TooOftenError, or the error that kept it
// from counting. The caller ends the turn.
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
	defer func() { // also runs after a panic
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

// countTimeout bounds the wait for a PostgreSQL that does not answer.
const countTimeout = 10 * time.Second

// count takes a token from each bucket. It waits for a place in Counting first.
func (e *Entrance) count(ctx context.Context, buckets []storage.Bucket) (storage.Allowance, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	if e.Counting != nil {
		if err := e.Counting.Acquire(ctx, 1); err != nil {
			return storage.Allowance{}, err
		}
		defer e.Counting.Release(1)
	}
	return e.Requests.Allow(ctx, buckets...)
}

// read reads the body of a form while other requests of the address have its turn. What h reads stays the same.
func read(r *http.Request, turn *Turn) error {
	err := turn.Without(r.Context(), func() {
		sent, _ := io.ReadAll(r.Body) // h finds the error at the same place
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(sent), r.Body), r.Body}
	})
	if errors.Is(err, ErrBusy) {
		return &TooOftenError{Wait: time.Second}
	}
	return err
}

// Limited calls h for requests that Enter lets in. counts name more buckets of a request.
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
		if r.Method == http.MethodPost && e.ReadFirst != nil && e.ReadFirst(r) {
			if err := read(r, turn); err != nil {
				return err
			}
		}
		return h(w, r)
	}
}

// Address returns the name under which a request without a key is counted: the IPv4 address, or the
// 64-bit network in IPv6, because one customer has a whole such network.
func Address(r *http.Request) string {
	host := RemoteIP(r)
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address = address.Unmap().WithZone(""); address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}

// RemoteIP returns the IP address of r's client.
func RemoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
