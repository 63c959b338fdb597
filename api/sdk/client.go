// Package sdk is for merchants who write Go: a client for the calls that a shop makes, ConstructEvent, which
// verifies a webhook, and the types of these calls and of the events, which are generated from the OpenAPI document.
// README.md shows how to use it.
package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client makes calls of the REST API. Several goroutines may use it.
type Client struct {
	url, key string
	http     *http.Client
}

// NewClient returns a client of the API at an address, such as https://api.example.com. The key is a
// secret; keep it on your server.
func NewClient(address, key string) *Client {
	return &Client{strings.TrimSuffix(address, "/"), key, &http.Client{Timeout: 30 * time.Second}}
}

// APIError is an answer that refuses a request or tells of a fault.
type APIError struct {
	Status    int    `json:"-"`          // of HTTP
	Code      string `json:"error"`      // does not change, such as order_id_in_use
	Message   string `json:"message"`    // words for people
	RequestID string `json:"request_id"` // tell it when you ask for help
	Body      []byte `json:"-"`          // for the types of errors that have more fields, such as OrderIdInUse
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%d %s: %s (%s)", e.Status, e.Code, e.Message, e.RequestID)
}

// CreateSession creates a checkout session; send the customer to its Url. A repeat with the same
// idempotency key gets the same session, so derive the key from your order. The error is an *APIError
// when the service answered; without an answer repeat the call.
func (c *Client) CreateSession(ctx context.Context, idempotencyKey string, r SessionRequest) (*CreatedSession, error) {
	return call[CreatedSession](ctx, c, http.MethodPost, "/v1/checkout", idempotencyKey, r)
}

// Session returns a session. Its Status tells whether the customer has paid.
func (c *Client) Session(ctx context.Context, id SessionId) (*Session, error) {
	return call[Session](ctx, c, http.MethodGet, "/v1/checkout/"+url.PathEscape(id), "", nil)
}

// Sessions returns a page of sessions, newest first. The query is that of the reference, such as
// cursor=…; nil is the first page.
func (c *Client) Sessions(ctx context.Context, query url.Values) (*SessionList, error) {
	return call[SessionList](ctx, c, http.MethodGet, "/v1/checkout?"+query.Encode(), "", nil)
}

// ExpireSession ends a pending session, which frees its order id.
func (c *Client) ExpireSession(ctx context.Context, id SessionId) (*Session, error) {
	return call[Session](ctx, c, http.MethodPost, "/v1/checkout/"+url.PathEscape(id)+"/expire", "", nil)
}

// RefundSession gives back the payment of a completed session to the card: r.Amount of it, or all that is left. A
// repeat with the same idempotency key gets the same refund. The error is an *APIError with the Body of an
// InsufficientBalance when your balance does not cover the refund.
func (c *Client) RefundSession(
	ctx context.Context, idempotencyKey string, id SessionId, r RefundRequest,
) (*Refund, error) {
	return call[Refund](ctx, c, http.MethodPost, "/v1/checkout/"+url.PathEscape(id)+"/refund", idempotencyKey, r)
}

// Refund returns a refund.
func (c *Client) Refund(ctx context.Context, id RefundId) (*Refund, error) {
	return call[Refund](ctx, c, http.MethodGet, "/v1/refunds/"+url.PathEscape(id), "", nil)
}

// Refunds returns a page of refunds; the query is as of Sessions.
func (c *Client) Refunds(ctx context.Context, query url.Values) (*RefundList, error) {
	return call[RefundList](ctx, c, http.MethodGet, "/v1/refunds?"+query.Encode(), "", nil)
}

// Dispute returns a dispute. The bank takes evidence until its RespondBy.
func (c *Client) Dispute(ctx context.Context, id DisputeId) (*Dispute, error) {
	return call[Dispute](ctx, c, http.MethodGet, "/v1/disputes/"+url.PathEscape(id), "", nil)
}

// SubmitEvidence answers a dispute with texts and files, once. A repeat with the same idempotency key gets the same
// answer.
func (c *Client) SubmitEvidence(
	ctx context.Context, idempotencyKey string, id DisputeId, r EvidenceRequest,
) (*Dispute, error) {
	return call[Dispute](ctx, c, http.MethodPost, "/v1/disputes/"+url.PathEscape(id)+"/evidence", idempotencyKey, r)
}

// Disputes returns a page of disputes; the query is as of Sessions.
func (c *Client) Disputes(ctx context.Context, query url.Values) (*DisputeList, error) {
	return call[DisputeList](ctx, c, http.MethodGet, "/v1/disputes?"+query.Encode(), "", nil)
}

// Balance returns your balances in the mode of the key, one per currency.
func (c *Client) Balance(ctx context.Context) (*Balances, error) {
	return call[Balances](ctx, c, http.MethodGet, "/v1/balance", "", nil)
}

// BalanceTransactions returns a page of the changes of your balances; the query is as of Sessions.
func (c *Client) BalanceTransactions(ctx context.Context, query url.Values) (*BalanceTransactionList, error) {
	return call[BalanceTransactionList](ctx, c, http.MethodGet, "/v1/balance/transactions?"+query.Encode(), "", nil)
}

// CreateWebhook registers a webhook. Only this answer has its Secret.
func (c *Client) CreateWebhook(
	ctx context.Context, idempotencyKey string, r WebhookRequest,
) (*WebhookWithSecret, error) {
	return call[WebhookWithSecret](ctx, c, http.MethodPost, "/v1/webhooks", idempotencyKey, r)
}

// call makes a request and decodes the answer. It sends no body when body is nil.
func call[T any](ctx context.Context, c *Client, method, path, idempotencyKey string, body any) (*T, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}

	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		refusal := &APIError{Status: response.StatusCode, Body: answer}
		if json.Unmarshal(answer, refusal) != nil { // a proxy's answer
			refusal.Message = http.StatusText(response.StatusCode)
		}
		return nil, refusal
	}
	got := new(T)
	if err := json.Unmarshal(answer, got); err != nil {
		return nil, fmt.Errorf("%s %s answered %d: %w", method, path, response.StatusCode, err)
	}
	return got, nil
}
