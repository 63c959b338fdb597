package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// Erasure is what EraseCustomer did, or would do.
type Erasure struct {
	Sessions []checkout.Ref // whose customer was erased
	Rows     map[string]int // changed rows by table
	Open     []OpenData     // what cannot be erased yet
	Members  []string       // ids of merchants' people who have the address; they are no customers
}

// OpenData is data of a customer that is still needed.
type OpenData struct {
	checkout.Ref        // cs_…; an idempotent request has no id
	Why          string // in words
	Until        *time.Time
}

// errDryRun rolls a transaction back after it has counted its rows.
var errDryRun = errors.New("dry run")

// customerPage is how many sessions a statement looks at.
const customerPage = 1000

// EraseCustomer removes the data of the customer with an e-mail address from the sessions of a merchant, of both modes,
// and from all that hangs on them: payments, events, attempts, idempotent answers and the sandbox's charges. Amounts,
// ids, times and states stay. A session that is not over in every respect is not erased but listed. Each session is
// erased in a transaction of its own, with the audit entry that audited returns. Without apply nothing changes, and the
// result says what would. A repeat finds nothing. The address is compared without regard to upper and lower case.
func (s *Customers) EraseCustomer(
	ctx context.Context, merchantID, email string, apply bool, audited func(checkout.Ref) merchant.AuditEntry,
) (Erasure, error) {
	e := eraser{s, strings.ToLower(email), apply, audited, Erasure{Rows: map[string]int{}}}
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		owner := checkout.Owner{MerchantID: merchantID, Mode: mode}
		if err := e.eraseSessions(ctx, owner); err != nil {
			return e.done, pg.Wrap("erase customer", err)
		}
		if err := e.eraseAnswers(ctx, owner); err != nil {
			return e.done, pg.Wrap("erase customer from idempotent answers", err)
		}
	}
	members, err := pg.Values[string](ctx, s.pool, `
		SELECT id FROM member WHERE merchant_id = $1 AND lower(email) = $2 ORDER BY id`, merchantID, e.email)
	e.done.Members = append(e.done.Members, members...)
	return e.done, pg.Wrap("erase customer", err)
}

// eraser is one call of EraseCustomer.
type eraser struct {
	*Customers
	email   string // in lower case
	apply   bool
	audited func(checkout.Ref) merchant.AuditEntry
	done    Erasure
}

// inRun runs f in a transaction that counts only when the rows shall change.
func (e *eraser) inRun(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		if !e.apply {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return err
}

// names is the SQL condition that a text has the address @email, also in a URL.
func names(column string) string {
	return `strpos(replace(replace(lower(coalesce(` + column + `, '')), '%40', '@'), '%2b', '+'), @email) > 0`
}

// personalColumn is a column of a session in which a merchant may write an address.
type personalColumn struct {
	name   string
	text   string // SQL of its text
	erased string // SQL of what takes the place of a value with the address
}

// personalColumns lists them, apart from metadata, of which the order id stays.
var personalColumns = []personalColumn{
	{"order_id", "s.order_id", "NULL"},
	{"redirect_url", "s.redirect_url", "NULL"},
	{"cancel_url", "s.cancel_url", "NULL"},
	{"description", "s.description", "NULL"},
	{"line_items", "s.line_items::jsonb::text", "NULL"},
	{"webhook_url", "s.webhook_url", "'" + erasedURL + "'"},
}

func (c personalColumn) named() string { return names(c.text) }

func (c personalColumn) set() string {
	return c.name + " = CASE WHEN " + names(c.text) + " THEN " + c.erased + " ELSE s." + c.name + " END"
}

func eachPersonal(separator string, sql func(personalColumn) string) string {
	var all []string
	for _, c := range personalColumns {
		all = append(all, sql(c))
	}
	return strings.Join(all, separator)
}

// findCustomer pages through the sessions of one merchant and mode. No index knows what merchants write
// into metadata and URLs, so it looks at every session. Metadata is no jsonb here: PostgreSQL refuses some of its
// numbers there, and the session of one merchant would stop the search.
var findCustomer = `
	SELECT s.id, s.customer_email IS NOT NULL AND lower(s.customer_email) = @email
		OR EXISTS (SELECT FROM transaction t WHERE t.session_id = s.id AND lower(t.customer_email) = @email)
		OR EXISTS (SELECT FROM json_each_text(s.metadata) m WHERE ` + names("m.key || ' ' || m.value") + `)
		OR ` + eachPersonal(" OR ", personalColumn.named) + `
		AS match
	FROM checkout_session s WHERE s.merchant_id = @merchant AND s.mode = @mode AND s.id > @after
	ORDER BY s.id LIMIT @limit`

// searched is a session that may have data of the customer.
type searched struct {
	ID    string
	Match bool
}

func (e *eraser) eraseSessions(ctx context.Context, owner checkout.Owner) error {
	for after := ""; ; {
		page, err := pg.Collect[searched](ctx, e.pool, findCustomer, pgx.NamedArgs{
			"merchant": owner.MerchantID, "mode": owner.Mode, "after": after, "email": e.email, "limit": customerPage,
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, session := range page {
			after = session.ID
			if !session.Match {
				continue
			}
			if err := e.eraseSession(ctx, owner.Ref(session.ID)); err != nil {
				return fmt.Errorf("%s: %w", session.ID, err)
			}
		}
	}
}

// eraseSession erases the customer of one session, unless the session is open.
func (e *eraser) eraseSession(ctx context.Context, ref checkout.Ref) error {
	rows := map[string]int{}
	var open []OpenData
	err := e.inRun(ctx, func(tx pgx.Tx) error {
		metadata, err := pg.Value[json.RawMessage](ctx, tx, `
			SELECT metadata FROM checkout_session WHERE id = $1 AND merchant_id = $2 AND mode = $3
			FOR NO KEY UPDATE`, ref.ID, ref.MerchantID, ref.Mode)
		if errors.Is(err, checkout.ErrNotFound) { // Retention deleted it just now
			return nil
		}
		if err != nil {
			return err
		}
		if open, err = openData(ctx, tx, ref); err != nil || len(open) > 0 {
			return err
		}
		if err := e.eraseEvents(ctx, tx, ref, rows); err != nil {
			return err
		}
		for _, change := range erasures {
			tag, err := tx.Exec(ctx, change.sql, pgx.NamedArgs{
				"id": ref.ID, "merchant": ref.MerchantID, "mode": ref.Mode, "email": e.email,
				"metadata": keptMetadata(metadata, e.email),
			})
			if err != nil {
				return fmt.Errorf("%s: %w", change.table, err)
			}
			rows[change.table] += int(tag.RowsAffected())
		}
		return pg.Audit(ctx, tx, e.audited(ref))
	})
	if err != nil {
		return err
	}
	e.done.Open = append(e.done.Open, open...)
	if len(open) == 0 {
		e.done.Sessions = append(e.done.Sessions, ref)
	}
	for table, n := range rows {
		e.done.Rows[table] += n
	}
	return nil
}

// longestDelivery is how long a delivery goes on by itself.
func longestDelivery() (all time.Duration) {
	for _, delay := range webhook.RetrySchedule {
		all += delay + webhook.AttemptTimeout
	}
	return all + webhook.AttemptTimeout
}

// openData returns what of a session is still needed.
func openData(ctx context.Context, tx pgx.Tx, ref checkout.Ref) ([]OpenData, error) {
	return pg.CollectBy(ctx, tx, func(row pgx.CollectableRow) (OpenData, error) {
		open := OpenData{Ref: ref}
		err := row.Scan(&open.Why, &open.Until)
		return open, err
	}, `
		SELECT 'the session is pending', expires_at FROM checkout_session
			WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'
		UNION ALL SELECT 'payout ' || id || ' is pending', NULL FROM payout
			WHERE session_id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'
		UNION ALL SELECT 'the evidence about dispute ' || r.dispute_id || ' is not sent', NULL
			FROM dispute_evidence e JOIN charge_risk r ON r.id = e.risk_id JOIN transaction t ON t.id = r.transaction_id
			WHERE t.session_id = $1 AND e.merchant_id = $2 AND e.mode = $3 AND e.content IS NOT NULL
		UNION ALL SELECT 'delivery ' || d.id || ' is not delivered', d.created_at + $4::interval
			FROM event e JOIN webhook_delivery d ON d.event_id = e.id
			WHERE e.session_id = $1 AND e.merchant_id = $2 AND e.mode = $3 AND d.status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, longestDelivery())
}

// erasedURL takes the place of an address that held the e-mail address.
const erasedURL = "https://erased.invalid/"

// erasedMethod replaces members of a payment method by values that the API's contract allows. The brand and
// the issuer's country stay: they decide what a charge cost.
const erasedMethod = `'{"last4": "0000", "exp_month": 1, "exp_year": 2000}'::jsonb`

// erasures are the changes for one session: @id, @merchant and @mode name it, @metadata is what it keeps.
var erasures = []struct{ table, sql string }{
	{"transaction", `
		UPDATE transaction SET customer_email = NULL, card_token = NULL, action_url = NULL,
			payment_method = (payment_method::jsonb || ` + erasedMethod + `)::json
		WHERE session_id = @id AND merchant_id = @merchant AND mode = @mode`},
	{"webhook_attempt", `
		UPDATE webhook_attempt a SET response_body = NULL FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE a.delivery_id = d.id AND e.session_id = @id AND e.merchant_id = @merchant AND e.mode = @mode
			AND a.response_body IS NOT NULL`},
	{"webhook_delivery", `
		UPDATE webhook_delivery d SET url = '` + erasedURL + `' FROM event e
		WHERE e.id = d.event_id AND e.session_id = @id AND e.merchant_id = @merchant AND e.mode = @mode
			AND ` + names("d.url")},
	{"webhook_endpoint", `
		UPDATE webhook_endpoint w SET url = '` + erasedURL + `'
		WHERE w.session_id = @id AND w.merchant_id = @merchant AND w.mode = @mode AND ` + names("w.url")},
	{"sandbox_charge", `
		UPDATE sandbox_charge c SET method = (method::jsonb || ` + erasedMethod + `)::json, return_url = ''
		FROM transaction t
		WHERE c.transaction_id = t.id AND t.session_id = @id AND t.merchant_id = @merchant AND t.mode = @mode`},
	{"picture", `
		DELETE FROM picture p USING checkout_session s CROSS JOIN LATERAL json_array_elements(s.line_items) i
		WHERE s.id = @id AND s.merchant_id = @merchant AND s.mode = @mode
			AND p.merchant_id = s.merchant_id AND p.mode = s.mode
			AND p.url_digest = sha256(convert_to(i->>'image_url', 'UTF8')) AND ` + names("s.line_items::jsonb::text")},
	{"checkout_session", `
		UPDATE checkout_session s SET customer_email = NULL, metadata = @metadata,
			` + eachPersonal(", ", personalColumn.set) + `
		WHERE s.id = @id AND s.merchant_id = @merchant AND s.mode = @mode`},
}

// eraseEvents rewrites the bytes of a session's events.
func (e *eraser) eraseEvents(ctx context.Context, tx pgx.Tx, ref checkout.Ref, counted map[string]int) error {
	type event struct {
		ID   string
		Body []byte
	}
	events, err := pg.Collect[event](ctx, tx, `
		SELECT id, body FROM event WHERE session_id = $1 AND merchant_id = $2 AND mode = $3`,
		ref.ID, ref.MerchantID, ref.Mode)
	if err != nil {
		return err
	}
	for _, was := range events {
		_, err := tx.Exec(ctx, `UPDATE event SET body = $4 WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
			was.ID, ref.MerchantID, ref.Mode, eraseJSON(was.Body, e.email))
		if err != nil {
			return err
		}
		counted["event"]++
	}
	return nil
}

// eraseAnswers erases the customer from the idempotent answers about erased sessions, and from others that have the
// address. An answer about an open session stays. A key with the address cannot change: it is listed.
func (e *eraser) eraseAnswers(ctx context.Context, owner checkout.Owner) error {
	var open []string
	for _, o := range e.done.Open {
		if o.ID != "" { // a key has none, and "" is in every answer
			open = append(open, o.ID)
		}
	}
	route, key := "", ""
	for {
		page, err := pg.Collect[storedAnswer](ctx, e.pool, `
			SELECT route, key, created_at, coalesce(answer, '') AS answer, master_key_id AS key_id FROM idempotent_request
			WHERE merchant_id = $1 AND mode = $2 AND (route, key) > ($3, $4)
			ORDER BY route, key LIMIT $5`, owner.MerchantID, owner.Mode, route, key, customerPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, kept := range page {
			route, key = kept.Route, kept.Key
			if err := e.eraseAnswer(ctx, owner, kept, open); err != nil {
				return err
			}
		}
	}
}

// storedAnswer is the sealed answer to an idempotent request; empty when it has none.
type storedAnswer struct {
	Route, Key string
	CreatedAt  time.Time
	Answer     []byte
	KeyID      string
}

func (e *eraser) eraseAnswer(ctx context.Context, owner checkout.Owner, kept storedAnswer, open []string) error {
	if strings.Contains(strings.ToLower(kept.Key), e.email) {
		until := kept.CreatedAt.Add(KeepAnswers)
		e.done.Open = append(e.done.Open, OpenData{owner.Ref(""), "an Idempotency-Key has the address", &until})
	}
	if len(kept.Answer) == 0 {
		return nil
	}
	request := IdempotentRequest{Owner: owner, Route: kept.Route, Key: kept.Key}
	plain, err := e.keys.Unseal(kept.KeyID, request.owner(), kept.Answer)
	if err != nil {
		return err
	}
	names := func(id string) bool { return bytes.Contains(plain, []byte(id)) }
	erased := slices.ContainsFunc(e.done.Sessions, func(ref checkout.Ref) bool { return names(ref.ID) })
	if slices.ContainsFunc(open, names) || !erased && !bytes.Contains(bytes.ToLower(plain), []byte(e.email)) {
		return nil
	}
	location, body, _ := bytes.Cut(plain, []byte("\n"))
	fresh := eraseJSON(body, e.email)
	if bytes.Equal(fresh, body) {
		return nil
	}
	keyID, sealed := e.keys.Seal(request.owner(), slices.Concat(location, []byte("\n"), fresh))
	return e.inRun(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE idempotent_request SET answer = $5, master_key_id = $6
			WHERE merchant_id = $1 AND mode = $2 AND route = $3 AND key = $4 AND answer = $7`,
			owner.MerchantID, owner.Mode, kept.Route, kept.Key, sealed, keyID, kept.Answer)
		e.done.Rows["idempotent_request"] += int(tag.RowsAffected())
		return err
	})
}
