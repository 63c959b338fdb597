package ethereum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
)

// ErrNotReady means that a node does not answer, is still syncing, or is behind the chain. It may
// answer later.
var ErrNotReady = errors.New("the Ethereum node is not ready")

const (
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 20 // bytes; a full block has some 500 KB
)

// A node answers questions about the chain, in JSON-RPC.
type node struct {
	name    string // for errors: "node 1"
	client  *rpc.Client
	secrets *strings.Replacer // what an error must not show of its URL
}

// A refusal is an error that the node answered. Its code and text have no fixed meaning.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("refused (%d): %s", r.code, r.text) }

// dial returns a node. It asks nothing.
func dial(name, rawURL string) (*node, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The error of url.Parse quotes the URL, which may have a key in it.
		return nil, fmt.Errorf("%s: its address is not an http or https URL", name)
	}
	client, err := rpc.DialOptions(context.Background(), rawURL, rpc.WithHTTPClient(httpClient(callTimeout)))
	if err != nil {
		return nil, fmt.Errorf("%s: its address is not a URL of JSON-RPC", name)
	}
	return &node{name: name, client: client, secrets: secretsOf(u)}, nil
}

// httpClient returns a client that follows no redirect and reads no endless answer.
func httpClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:   timeout,
		Transport: bounded{http.DefaultTransport.(*http.Transport).Clone()},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects to another address")
		},
	}
}

type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// secretsOf returns a replacer for all parts of a URL that can name an account or a key: providers
// put keys into the user, the host, the path or the query.
func secretsOf(u *url.URL) *strings.Replacer {
	const shown = "…"
	parts := []string{u.String(), shown, u.Host, shown, u.Hostname(), shown}
	if password, ok := u.User.Password(); ok && password != "" {
		parts = append(parts, password, shown)
	}
	if user := u.User.Username(); user != "" {
		parts = append(parts, user, shown)
	}
	separates := func(r rune) bool { return strings.ContainsRune("/&=", r) }
	for _, part := range strings.FieldsFunc(u.Path+"&"+u.RawQuery, separates) {
		const shortest = 6 // shorter ones are words such as "v3"
		if len(part) >= shortest {
			parts = append(parts, part, shown)
		}
	}
	return strings.NewReplacer(parts...)
}

// call asks the node. result is a pointer. The error is a refusal or ErrNotReady.
func (n *node) call(ctx context.Context, result any, method string, args ...any) error {
	return n.fault(method, n.client.CallContext(ctx, result, method, args...))
}

// A question is one call of a batch.
type question struct {
	result any // a pointer
	method string
	args   []any
}

// ask asks several questions in one request. It returns the error of the first that has one.
func (n *node) ask(ctx context.Context, questions ...question) error {
	batch := make([]rpc.BatchElem, len(questions))
	for i, q := range questions {
		batch[i] = rpc.BatchElem{Method: q.method, Args: q.args, Result: q.result}
	}
	if err := n.client.BatchCallContext(ctx, batch); err != nil {
		return n.fault("batch", err)
	}
	for _, answer := range batch {
		if answer.Error != nil {
			return n.fault(answer.Method, answer.Error)
		}
	}
	return nil
}

// An httpStatus is what a node answered in place of JSON-RPC.
type httpStatus int

func (s httpStatus) Error() string { return fmt.Sprintf("HTTP %d", int(s)) }

// unserved reports whether a node does not serve a method: providers say so in JSON-RPC or by a status of HTTP. That
// there are too many requests is no such answer.
func unserved(err error) bool {
	var (
		refused *refusal
		status  httpStatus
	)
	passing := []httpStatus{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}
	return errors.As(err, &refused) || errors.As(err, &status) &&
		(status >= 400 && status < 500 && !slices.Contains(passing, status) || status == http.StatusNotImplemented)
}

// fault returns err as this package shows it: without any part of the node's URL.
func (n *node) fault(method string, err error) error {
	if err == nil {
		return nil
	}
	if answered, ok := errors.AsType[rpc.Error](err); ok {
		return fmt.Errorf("%s: %s: %w", n.name, method, &refusal{answered.ErrorCode(), n.secrets.Replace(answered.Error())})
	}
	if status, ok := errors.AsType[rpc.HTTPError](err); ok { // its text has the body, which may repeat the key
		return fmt.Errorf("%s: %s: %w: %w", n.name, method, ErrNotReady, httpStatus(status.StatusCode))
	}
	if request, ok := errors.AsType[*url.Error](err); ok { // its text has the URL
		err = request.Err
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return fmt.Errorf("%s: %s: %w: %w", n.name, method, ErrNotReady, ended)
		}
	}
	return fmt.Errorf("%s: %s: %w: %s", n.name, method, ErrNotReady, n.secrets.Replace(err.Error()))
}
