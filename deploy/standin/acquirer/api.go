package acquirer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pgtemp"
)

// maxRequest is the largest request that is read, in bytes.
const maxRequest = 1 << 20

// A request is one call of the API that stripe-mock found well formed.
type request struct {
	id          string // req_…
	method      string
	path        []string // after /v1/
	form        url.Values
	key         string // idempotency key, "" without one
	publishable bool   // it came with a publishable key
	fixture     object
}

// An answer is a response of the API.
type answer struct {
	status int
	body   object
}

func ok(o object) answer { return answer{http.StatusOK, o} }

// refusal returns an error of the API. Source: docs.stripe.com/api/errors.
func refusal(status int, kind, code, message string) answer {
	e := object{"type": kind, "message": message}
	if code != "" {
		e["code"] = code
	}
	return answer{status, object{"error": e}}
}

func invalid(code, message string) answer {
	return refusal(http.StatusBadRequest, "invalid_request_error", code, message)
}

func missing(what, id string) answer {
	return refusal(http.StatusNotFound, "invalid_request_error", "resource_missing", "No such "+what+": '"+id+"'")
}

// serveAPI answers like https://api.stripe.com.
func (a *Acquirer) serveAPI(w http.ResponseWriter, r *http.Request) {
	id := newID("req_")
	w.Header().Set("Request-Id", id)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		write(w, invalid("", "The request cannot be read."))
		return
	}
	publishable, known := a.authenticate(r)
	if !known {
		write(w, refusal(http.StatusUnauthorized, "invalid_request_error", "", "Invalid API Key provided."))
		return
	}
	f := a.faults.meet(r.Method + " " + r.URL.Path)
	delay := time.Duration(f[FaultSlow].Delay) * time.Millisecond
	if delay > 0 && pgtemp.Pause(r.Context(), delay) != nil {
		return
	}
	if f.has(FaultTooMany) {
		write(w, refusal(http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "Too many requests."))
		return
	}

	got, replayed, err := a.checkAndPerform(r, request{
		id: id, method: r.Method, key: r.Header.Get("Idempotency-Key"), publishable: publishable,
		path: strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/"),
	}, body, f)
	switch {
	case f.has(FaultLost): // whatever was done is done
		panic(http.ErrAbortHandler) // ends the connection without an answer
	case err != nil:
		slog.ErrorContext(r.Context(), "acquirer", "request", r.Method+" "+r.URL.Path, "error", err)
		write(w, refusal(http.StatusInternalServerError, "api_error", "", "The double has failed; see its log."))
	default:
		if replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		write(w, got)
	}
}

// checkAndPerform performs a request that stripe-mock finds well formed.
func (a *Acquirer) checkAndPerform(r *http.Request, q request, body []byte, f effects) (answer, bool, error) {
	status, fixture, err := a.mock.judge(r.Context(), r.Method, r.URL.Path, r.URL.RawQuery, body,
		r.Header.Get("Stripe-Version"))
	if err != nil {
		return answer{}, false, err
	}
	if status != http.StatusOK {
		return answer{status, fixture}, false, nil
	}
	q.fixture, q.form = fixture, r.URL.Query()
	if q.method == http.MethodPost {
		q.form, _ = url.ParseQuery(string(body)) // stripe-mock has read it
	}
	return a.performOnce(r.Context(), q, f)
}

// authenticate reports whether the key is a publishable one, and whether it is known at all.
func (a *Acquirer) authenticate(r *http.Request) (publishable, known bool) {
	key, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		key, _, _ = r.BasicAuth() // curl -u sk_test_…:
	}
	publishable = strings.HasPrefix(key, "pk_")
	return publishable, publishable || key == a.options.SecretKey
}

// performOnce performs a request, in one transaction. A POST with an idempotency key that was seen before
// gets the answer of that time, a saved error of the server included. Different parameters under the
// same key are refused. Source: docs.stripe.com/api/idempotent_requests.
func (a *Acquirer) performOnce(ctx context.Context, q request, f effects) (got answer, replayed bool, err error) {
	err = pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error {
		var err error
		if q.method != http.MethodPost || q.key == "" {
			got, err = a.perform(ctx, tx, q, f)
			return err
		}
		if got, replayed, err = savedAnswer(ctx, tx, q); err != nil || replayed {
			return err
		}
		if got.status != 0 {
			return nil
		}
		if got, err = a.perform(ctx, tx, q, f); err != nil {
			return err
		}
		body, err := json.Marshal(got.body)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO acquirer.idempotency_key (key, fingerprint, status, body) VALUES ($1, $2, $3, $4)`,
			q.key, fingerprint(q), got.status, body)
		return err
	})
	return got, replayed, err
}

// savedAnswer returns the answer that an idempotency key has. Its answer has status 0 when the key is new.
func savedAnswer(ctx context.Context, tx pgx.Tx, q request) (got answer, replayed bool, err error) {
	var free bool
	// The lock is held until the answer is saved.
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('acquirer key ' || $1, 0))`, q.key).
		Scan(&free)
	if err != nil {
		return answer{}, false, err
	}
	if !free {
		return refusal(http.StatusConflict, "idempotency_error", "idempotency_key_in_use",
			"There is currently another in-progress request using this Idempotent Key."), false, nil
	}
	_, err = tx.Exec(ctx, `
		DELETE FROM acquirer.idempotency_key WHERE key = $1 AND created_at < now() - interval '24 hours'`, q.key)
	if err != nil {
		return answer{}, false, err
	}
	var print string
	var body []byte
	err = tx.QueryRow(ctx, `
		SELECT fingerprint, status, body FROM acquirer.idempotency_key WHERE key = $1`, q.key).
		Scan(&print, &got.status, &body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return answer{}, false, nil
	case err != nil:
		return answer{}, false, err
	case print != fingerprint(q):
		return refusal(http.StatusBadRequest, "idempotency_error", "",
			"Keys for idempotent requests can only be used with the same parameters they were first used with."), false, nil
	}
	return got, true, json.Unmarshal(body, &got.body)
}

// fingerprint is the same for the same request.
func fingerprint(q request) string {
	sum := sha256.Sum256([]byte(strings.Join(q.path, "/") + "?" + q.form.Encode()))
	return hex.EncodeToString(sum[:])
}

// perform performs a request, unless a fault makes the server fail before.
func (a *Acquirer) perform(ctx context.Context, tx pgx.Tx, q request, f effects) (answer, error) {
	broken := refusal(http.StatusInternalServerError, "api_error", "", "An unknown error occurred.")
	if f.has(FaultBroken) && !f[FaultBroken].AfterEffect {
		return broken, nil
	}
	got, err := a.route(ctx, tx, q)
	if err == nil && f.has(FaultBroken) {
		return broken, nil
	}
	if err == nil && got.status == http.StatusOK {
		err = expand(ctx, tx, q, got.body)
	}
	return got, err
}

// route performs a request by its path.
func (a *Acquirer) route(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	switch route := q.method + " " + shape(q.path); route {
	case "POST payment_intents":
		return a.createIntent(ctx, tx, q)
	case "GET payment_intents/id":
		return readIntent(ctx, tx, q)
	case "POST payment_intents/id/confirm":
		return a.confirmIntent(ctx, tx, q)
	case "POST payment_intents/id/cancel":
		return a.cancelIntent(ctx, tx, q)
	case "POST test_helpers/id": // confirmation_tokens
		return a.createTestToken(ctx, tx, q)
	case "POST refunds":
		return a.createRefund(ctx, tx, q)
	case "GET balance_transactions", "GET payment_intents", "GET refunds", "GET charges", "GET disputes", "GET events",
		"GET radar/id": // early_fraud_warnings
		return listObjects(ctx, tx, q)
	case "GET refunds/id", "GET charges/id", "GET disputes/id", "GET events/id", "GET confirmation_tokens/id":
		o, _, err := find(ctx, tx, strings.TrimSuffix(q.path[0], "s"), q.path[1])
		if errors.Is(err, errMissing) {
			return missing(q.path[0], q.path[1]), nil
		}
		return ok(o), err
	}
	return invalid("", "The double does not know this request."), nil
}

// shape replaces the id in a path.
func shape(path []string) string {
	if len(path) > 1 {
		path = slices.Clone(path)
		path[1] = "id"
	}
	return strings.Join(path, "/")
}

// listObjects answers a list.
func listObjects(ctx context.Context, tx pgx.Tx, q request) (answer, error) {
	p := page{
		kind: strings.TrimSuffix(strings.Join(q.path, "."), "s"), intentID: q.form.Get("payment_intent"),
		since: number(q.form.Get("created[gte]")), until: number(q.form.Get("created[lte]")),
		after: q.form.Get("starting_after"), before: q.form.Get("ending_before"), limit: 10,
	}
	if limit := number(q.form.Get("limit")); limit != 0 {
		p.limit = int(min(limit, 100))
	}
	for name, values := range q.form {
		if name == "type" || strings.HasPrefix(name, "types[") {
			p.types = append(p.types, values...)
		}
	}
	for _, edge := range []string{p.after, p.before} {
		if edge == "" {
			continue
		}
		if _, _, err := find(ctx, tx, p.kind, edge); errors.Is(err, errMissing) {
			return invalid("resource_missing", "No such "+p.kind+": '"+edge+"'"), nil
		}
	}
	objects, more, err := list(ctx, tx, p)
	data := make([]any, 0, len(objects))
	for _, o := range objects {
		data = append(data, o)
	}
	return ok(object{"object": "list", "url": "/v1/" + strings.Join(q.path, "/"), "has_more": more, "data": data}), err
}

// expand replaces ids by the objects that the request wants to see in full.
func expand(ctx context.Context, tx pgx.Tx, q request, body object) error {
	for name, values := range q.form {
		if !strings.HasPrefix(name, "expand[") {
			continue
		}
		for _, field := range values {
			targets := []object{body}
			if inList, ok := strings.CutPrefix(field, "data."); ok {
				field, targets = inList, items(body)
			}
			for _, target := range targets {
				if err := expandField(ctx, tx, target, field); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// items are the objects of a list.
func items(list object) []object {
	data, _ := list["data"].([]any) // of a list
	objects := make([]object, 0, len(data))
	for _, item := range data {
		if o, ok := item.(object); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// expandField replaces the id in a field. The rest of a path such as latest_charge.balance_transaction
// is expanded in the object that comes in its place.
func expandField(ctx context.Context, tx pgx.Tx, o object, path string) error {
	field, rest, deeper := strings.Cut(path, ".")
	kind := map[string]string{
		"latest_charge": kindCharge, "payment_method": kindMethod, "payment_intent": kindIntent, "charge": kindCharge,
		"balance_transaction": kindBalance,
	}[field]
	id := o.text(field)
	if kind == "" || id == "" {
		return nil
	}
	whole, _, err := find(ctx, tx, kind, id)
	if err != nil {
		return err
	}
	o[field] = whole
	if !deeper {
		return nil
	}
	return expandField(ctx, tx, whole, rest)
}

// newID returns a new id.
func newID(prefix string) string { return prefix + rand.Text()[:24] }

// number reads a whole number; 0 for everything else.
func number(text string) int64 {
	n, _ := json.Number(text).Int64() // 0 for everything else
	return n
}

func write(w http.ResponseWriter, got answer) {
	body, err := json.MarshalIndent(got.body, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(got.status)
	_, _ = w.Write(body) // an error means that the client has gone
}
