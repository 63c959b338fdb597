// Package jsonrpc calls nodes of blockchains, and signers, in JSON-RPC. No error holds any part of their addresses.
package jsonrpc

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

// ErrNotReady means that a node does not answer, is still syncing, or is behind the chain. It may answer later.
var ErrNotReady = errors.New("the node is not ready")

const (
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 20 // bytes; a full block has some 500 KB
)

// A Node answers questions about the chain.
type Node struct {
	Name string // for errors: "node 1"

	client  *rpc.Client
	secrets *strings.Replacer // what an error must not show of its URL
	faults  map[int]string
}

// Options are a node's settings beside its URL.
type Options struct {
	User, Password string         // "": none
	Path           string         // what follows the URL
	Faults         map[int]string // by status of HTTP: those that mean a wrong setting, in words
}

// A Refusal is an error that the node answered. Its code and text have no fixed meaning.
type Refusal struct {
	code int
	text string
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused (%d): %s", r.code, r.text) }

// An HTTPStatus is a node's answer in place of JSON-RPC.
type HTTPStatus int

func (s HTTPStatus) Error() string { return fmt.Sprintf("HTTP %d", int(s)) }

// Dial returns a node and makes no request.
func Dial(name, rawURL string, o Options) (*Node, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The error of url.Parse quotes the URL, which may have a key in it.
		return nil, fmt.Errorf("%s: its address is not an http or https URL", name)
	}
	client, err := rpc.DialOptions(context.Background(), rawURL+o.Path, rpc.WithHTTPClient(httpClient()),
		rpc.WithHTTPAuth(func(h http.Header) error {
			if o.User != "" {
				(&http.Request{Header: h}).SetBasicAuth(o.User, o.Password)
			}
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("%s: its address is not a URL of JSON-RPC", name)
	}
	return &Node{Name: name, client: client, secrets: secretsOf(u), faults: o.Faults}, nil
}

// httpClient returns a client that follows no redirect and reads no endless answer.
func httpClient() *http.Client {
	return &http.Client{
		Timeout:   callTimeout,
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

// Call makes one request to the node. result is a pointer, or nil. The error is a Refusal, ErrNotReady or a wrong
// setting.
func (n *Node) Call(ctx context.Context, result any, method string, args ...any) error {
	return n.fault(method, n.client.CallContext(ctx, result, method, args...))
}

// A Question is one call of a batch. A refusal is the question's own when it has a place for it.
type Question struct {
	batch   rpc.BatchElem
	refused **Refusal
}

// Ask returns a question. result is a pointer, or nil.
func Ask(result any, method string, args ...any) Question {
	if result == nil {
		result = new(any)
	}
	return Question{batch: rpc.BatchElem{Method: method, Args: args, Result: result}}
}

// In returns the question, and notes a refusal in into in place of failing with it.
func (q Question) In(into **Refusal) Question {
	q.refused = into
	return q
}

// mostQuestions is how many questions one request has.
const mostQuestions = 500

// Ask makes several calls in one request. It returns the first error of a call.
func (n *Node) Ask(ctx context.Context, questions ...Question) error {
	for some := range slices.Chunk(questions, mostQuestions) {
		if err := n.askSome(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) askSome(ctx context.Context, questions []Question) error {
	batch := make([]rpc.BatchElem, len(questions))
	for i, q := range questions {
		batch[i] = q.batch
	}
	if err := n.client.BatchCallContext(ctx, batch); err != nil {
		return n.fault("batch", err)
	}
	for i, answer := range batch {
		err := n.fault(answer.Method, answer.Error)
		if refused, ok := errors.AsType[*Refusal](err); ok && questions[i].refused != nil {
			*questions[i].refused = refused
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inWarmup is the code with which a Bitcoin node answers every call while it loads its blocks and wallets.
const inWarmup = -28

// fault returns err as this package shows it: without any part of the node's URL.
func (n *Node) fault(method string, err error) error {
	if err == nil {
		return nil
	}
	if answered, ok := errors.AsType[rpc.Error](err); ok && answered.ErrorCode() != inWarmup {
		return fmt.Errorf("%s: %s: %w", n.Name, method, &Refusal{answered.ErrorCode(), n.secrets.Replace(answered.Error())})
	}
	if status, ok := errors.AsType[rpc.HTTPError](err); ok { // its text has the body, which may repeat the key
		if wrong := n.faults[status.StatusCode]; wrong != "" {
			return fmt.Errorf("%s: %s: %s", n.Name, method, wrong)
		}
		return fmt.Errorf("%s: %s: %w: %w", n.Name, method, ErrNotReady, HTTPStatus(status.StatusCode))
	}
	if request, ok := errors.AsType[*url.Error](err); ok { // its text has the URL
		err = request.Err
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return fmt.Errorf("%s: %s: %w: %w", n.Name, method, ErrNotReady, ended)
		}
	}
	return fmt.Errorf("%s: %s: %w: %s", n.Name, method, ErrNotReady, n.secrets.Replace(err.Error()))
}
