package bitcoin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrNotReady means that a node does not answer, is still syncing, or is behind the chain. It may answer later.
var ErrNotReady = errors.New("the Bitcoin node is not ready")

const (
	callTimeout = 10 * time.Second
	maxAnswer   = 64 << 20 // bytes
)

// A node answers the RPC of Bitcoin Core 28 or later. Amounts are read from the digits of its answers.
type node struct {
	name           string // for errors: "node"
	at             string // its URL without user and password
	user, password string
	wallet         string // "": only calls that need none
	client         *http.Client
}

// A refusal is an error that the node answered. Its code and text have no fixed meaning.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("refused (%d): %s", r.code, r.text) }

// dial returns a node. It asks nothing. rawURL has the user in it, and no password.
func dial(name, rawURL, password, wallet string) (*node, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The error of url.Parse quotes the URL.
		return nil, fmt.Errorf("%s: its address is not an http or https URL", name)
	}
	if _, has := u.User.Password(); has {
		return nil, fmt.Errorf("%s: the password must be in its file, not in the URL", name)
	}
	user := u.User.Username()
	if user == "" || password == "" {
		return nil, fmt.Errorf("%s: the URL must have a user, and the password file a password", name)
	}
	u.User = nil
	return &node{name: name, at: strings.TrimSuffix(u.String(), "/"), user: user, password: password, wallet: wallet,
		client: &http.Client{
			Timeout:   callTimeout,
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		}}, nil
}

// A question is one call of a batch. A refusal is the question's own when it has a place for it.
type question struct {
	result  any // a pointer, or nil
	method  string
	args    []any
	refused **refusal
}

// in returns the question, and notes a refusal in into in place of failing with it.
func (q question) in(into **refusal) question {
	q.refused = into
	return q
}

func ask(result any, method string, args ...any) question {
	return question{result: result, method: method, args: args}
}

// call asks one question. The error is a refusal or ErrNotReady.
func (n *node) call(ctx context.Context, result any, method string, args ...any) error {
	return n.ask(ctx, ask(result, method, args...))
}

// mostQuestions is how many questions one request has.
const mostQuestions = 500

// ask asks several questions. It returns the error of the first that has one.
func (n *node) ask(ctx context.Context, questions ...question) error {
	for len(questions) > 0 {
		some := questions[:min(len(questions), mostQuestions)]
		questions = questions[len(some):]
		if err := n.askSome(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

type rpcQuestion struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type rpcAnswer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// inWarmup is the code of a node that still loads its blocks and wallets. It answers every call with it, so it is no
// answer to any.
const inWarmup = -28

// refused returns the error of an answer: ErrNotReady or a refusal.
func (a *rpcAnswer) refused() error {
	switch {
	case a.Error == nil:
		return nil
	case a.Error.Code == inWarmup:
		return fmt.Errorf("%w: it is starting", ErrNotReady)
	}
	return &refusal{a.Error.Code, a.Error.Message}
}

func (n *node) askSome(ctx context.Context, questions []question) error {
	batch := make([]rpcQuestion, len(questions))
	for i, q := range questions {
		batch[i] = rpcQuestion{"2.0", i, q.method, append([]any{}, q.args...)}
	}
	body, err := json.Marshal(batch)
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	answers, err := n.post(ctx, body)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", n.name, questions[0].method, err)
	}
	by := make([]*rpcAnswer, len(questions))
	for i, a := range answers {
		if a.ID >= 0 && a.ID < len(by) {
			by[a.ID] = &answers[i]
		}
	}
	for i, q := range questions {
		if err := q.read(by[i]); err != nil {
			return fmt.Errorf("%s: %s: %w", n.name, q.method, err)
		}
	}
	return nil
}

func (q question) read(a *rpcAnswer) error {
	if a == nil {
		return fmt.Errorf("%w: it left a question unanswered", ErrNotReady)
	}
	var refused *refusal
	err := a.refused()
	switch {
	case errors.As(err, &refused) && q.refused != nil:
		*q.refused = refused
	case err != nil:
		return err
	case q.result != nil:
		if err := json.Unmarshal(a.Result, q.result); err != nil {
			return fmt.Errorf("%w: its answer is not the one of this call: %w", ErrNotReady, err)
		}
	}
	return nil
}

// post sends a batch. Its errors show nothing of the URL.
func (n *node) post(ctx context.Context, body []byte) ([]rpcAnswer, error) {
	at := n.at
	if n.wallet != "" {
		at += "/wallet/" + url.PathEscape(n.wallet)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its address is not a URL of JSON-RPC")
	}
	request.SetBasicAuth(n.user, n.password)
	request.Header.Set("Content-Type", "application/json")
	answer, err := n.client.Do(request)
	if err != nil {
		for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, ended) {
				return nil, fmt.Errorf("%w: %w", ErrNotReady, ended)
			}
		}
		return nil, fmt.Errorf("%w: it does not answer", ErrNotReady) // the error's text may have the URL
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return nil, errors.New("it refuses the user or the password")
	case http.StatusForbidden:
		return nil, errors.New("it refuses this address or this call (rpcallowip, rpcwhitelist)")
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: its answer was cut off", ErrNotReady)
	}
	var answers []rpcAnswer
	if json.Unmarshal(content, &answers) != nil {
		var one rpcAnswer // the whole batch is refused
		if json.Unmarshal(content, &one) == nil && one.Error != nil {
			return nil, one.refused()
		}
		return nil, fmt.Errorf("%w: HTTP %d", ErrNotReady, answer.StatusCode)
	}
	return answers, nil
}
