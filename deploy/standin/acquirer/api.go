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

// maxRequest is the largest request that is read, in bytes. It is larger than the largest file.
const maxRequest = 6 << 20

// A request is one call of the API that stripe-mock found well formed.
type request struct {
	requestID   string // req_…
	method      string
	path        []string // after /v1/
	form        url.Values
	file        filePart // of an upload
	key         string   // idempotency key, "" without one
	publishable bool     // it came with a publishable key
	fixture     object
}

// A desk works on one request, or for a bank or a person, in one transaction.
type desk struct {
	*Acquirer
	request // empty for a bank and a person

	ctx context.Context
	tx  pgx.Tx
}

// act calls do in a transaction.
func (a *Acquirer) act(ctx context.Context, q request, do func(desk) error) error {
	return pgx.BeginFunc(ctx, a.db, func(tx pgx.Tx) error { return do(desk{a, q, ctx, tx}) })
}

// An answer is a response of the API. As an error it is a refusal.
type answer struct {
	status int
	body   object
}

func (a answer) Error() string { return a.body.part("error").text("message") }

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
		requestID: id, method: r.Method, key: r.Header.Get("Idempotency-Key"), publishable: publishable,
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
		r.Header.Get("Content-Type"), r.Header.Get("Stripe-Version"))
	if err != nil || status != http.StatusOK {
		return answer{status, fixture}, false, err
	}
	q.fixture, q.form = fixture, r.URL.Query()
	if form, file, is := readParts(r.Header.Get("Content-Type"), body); is {
		q.form, q.file = form, file
	} else if q.method == http.MethodPost {
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
	err = a.act(ctx, q, func(d desk) (err error) {
		if q.method != http.MethodPost || q.key == "" {
			got, err = d.perform(f)
			return err
		}
		if got, replayed, err = d.savedAnswer(); err != nil || replayed {
			return err
		}
		if got, err = d.perform(f); err != nil {
			return err
		}
		_, err = d.tx.Exec(ctx, `
			INSERT INTO acquirer.idempotency_key (key, fingerprint, status, body) VALUES ($1, $2, $3, $4)`,
			q.key, fingerprint(q), got.status, got.body)
		return err
	})
	if refused, is := errors.AsType[answer](err); is {
		return refused, false, nil
	}
	return got, replayed, err
}

// savedAnswer returns the answer that the idempotency key has; false when the key is new.
func (d desk) savedAnswer() (got answer, saved bool, err error) {
	var free bool
	// The lock is held until the answer is saved.
	const lock = `SELECT pg_try_advisory_xact_lock(hashtextextended('acquirer key ' || $1, 0))`
	if err := d.tx.QueryRow(d.ctx, lock, d.key).Scan(&free); err != nil {
		return got, false, err
	}
	if !free {
		return got, false, refusal(http.StatusConflict, "idempotency_error", "idempotency_key_in_use",
			"There is currently another in-progress request using this Idempotent Key.")
	}
	_, err = d.tx.Exec(d.ctx, `
		DELETE FROM acquirer.idempotency_key WHERE key = $1 AND created_at < now() - interval '24 hours'`, d.key)
	if err != nil {
		return got, false, err
	}
	var print string
	err = d.tx.QueryRow(d.ctx, `
		SELECT fingerprint, status, body FROM acquirer.idempotency_key WHERE key = $1`, d.key).
		Scan(&print, &got.status, &got.body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return got, false, nil
	case err == nil && print != fingerprint(d.request):
		err = refusal(http.StatusBadRequest, "idempotency_error", "",
			"Keys for idempotent requests can only be used with the same parameters they were first used with.")
	}
	return got, true, err
}

// fingerprint is the same for the same request.
func fingerprint(q request) string {
	sum := sha256.Sum256([]byte(strings.Join(q.path, "/") + "?" + q.form.Encode() + "#" + string(q.file.content)))
	return hex.EncodeToString(sum[:])
}

// perform performs the request, unless a fault makes the server fail before. What a refused request did stays.
func (d desk) perform(f effects) (got answer, err error) {
	broken := refusal(http.StatusInternalServerError, "api_error", "", "An unknown error occurred.")
	if f.has(FaultBroken) && !f[FaultBroken].AfterEffect {
		return broken, nil
	}
	got.status = http.StatusOK
	if got.body, err = d.route(); err == nil {
		err = d.expand(got.body)
	}
	refused, isRefused := errors.AsType[answer](err)
	switch {
	case err != nil && !isRefused:
		return got, err
	case f.has(FaultBroken):
		return broken, nil
	case isRefused:
		return refused, nil
	}
	return got, nil
}

// route performs the request by its path.
func (d desk) route() (object, error) {
	route := d.method + " " + shape(d.path)
	if d.publishable && route != "GET payment_intents/id" && route != "POST payment_intents/id/confirm" {
		return nil, refusal(http.StatusForbidden, "invalid_request_error", "secret_key_required", "Use a secret key.")
	}
	switch route {
	case "POST payment_intents":
		return d.createIntent()
	case "GET payment_intents/id":
		return d.intent()
	case "POST payment_intents/id/confirm":
		return d.confirmIntent()
	case "POST payment_intents/id/cancel":
		return d.cancelIntent()
	case "POST test_helpers/id": // confirmation_tokens
		return d.createTestToken()
	case "POST refunds":
		return d.createRefund()
	case "POST files":
		return d.createFile()
	case "POST disputes/id":
		return d.updateDispute()
	case "GET balance_transactions", "GET payment_intents", "GET refunds", "GET charges", "GET disputes", "GET events",
		"GET radar/id": // early_fraud_warnings
		return d.listObjects()
	case "GET refunds/id", "GET charges/id", "GET disputes/id", "GET events/id", "GET confirmation_tokens/id",
		"GET files/id":
		return d.find(strings.TrimSuffix(d.path[0], "s"), d.path[1])
	}
	return nil, invalid("", "The double does not know this request.")
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
func (d desk) listObjects() (object, error) {
	p := page{
		kind: strings.TrimSuffix(strings.Join(d.path, "."), "s"), intentID: d.form.Get("payment_intent"),
		since: number(d.form.Get("created[gte]")), until: number(d.form.Get("created[lte]")),
		after: d.form.Get("starting_after"), before: d.form.Get("ending_before"), limit: 10,
	}
	if limit := number(d.form.Get("limit")); limit != 0 {
		p.limit = int(min(limit, 100))
	}
	for name, values := range d.form {
		if name == "type" || strings.HasPrefix(name, "types[") {
			p.types = append(p.types, values...)
		}
	}
	if edge := p.after + p.before; edge != "" {
		if _, err := d.findNamed(p.kind, edge); err != nil {
			return nil, err
		}
	}
	objects, more, err := d.list(p)
	return object{"object": "list", "url": "/v1/" + strings.Join(d.path, "/"), "has_more": more, "data": objects}, err
}

// expand replaces ids by the objects that the request wants to see in full.
func (d desk) expand(body object) error {
	for name, values := range d.form {
		if !strings.HasPrefix(name, "expand[") {
			continue
		}
		for _, field := range values {
			targets := []object{body}
			if inList, ok := strings.CutPrefix(field, "data."); ok {
				field = inList
				targets, _ = body["data"].([]object) // of a list
			}
			for _, target := range targets {
				if err := d.expandField(target, field); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// expandField replaces the id in a field. The rest of a path such as latest_charge.balance_transaction
// is expanded in the object that comes in its place.
func (d desk) expandField(o object, path string) error {
	field, rest, deeper := strings.Cut(path, ".")
	kind := map[string]string{
		"latest_charge": kindCharge, "payment_method": kindMethod, "payment_intent": kindIntent, "charge": kindCharge,
		"balance_transaction": kindBalance,
	}[field]
	id := o.text(field)
	if kind == "" || id == "" {
		return nil
	}
	whole, err := d.find(kind, id)
	if err != nil {
		return err
	}
	o[field] = whole
	if !deeper {
		return nil
	}
	return d.expandField(whole, rest)
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
