package acquirer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// schema is applied at every start.
const schema = `
CREATE SCHEMA IF NOT EXISTS acquirer;

-- number orders the lists: seconds, which Stripe's objects have, are too coarse. card is the name of the test card of a
-- token or a payment method, which Stripe never shows.
CREATE TABLE IF NOT EXISTS acquirer.object (
	id         text PRIMARY KEY,
	number     bigint GENERATED ALWAYS AS IDENTITY,
	kind       text NOT NULL,
	intent_id  text,
	card       text,
	body       jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS object_list_idx ON acquirer.object (kind, number);
CREATE INDEX IF NOT EXISTS object_intent_idx ON acquirer.object (intent_id, kind);

CREATE TABLE IF NOT EXISTS acquirer.idempotency_key (
	key         text PRIMARY KEY,
	fingerprint text NOT NULL,
	status      int NOT NULL,
	body        jsonb NOT NULL,
	created_at  timestamptz NOT NULL DEFAULT now()
);

-- One row is one POST of an event to the webhook address.
CREATE TABLE IF NOT EXISTS acquirer.webhook (
	id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	event_id text NOT NULL,
	due_at   timestamptz NOT NULL,
	tries    int NOT NULL DEFAULT 0,
	taken_at timestamptz
);
CREATE INDEX IF NOT EXISTS webhook_due_idx ON acquirer.webhook (due_at) WHERE taken_at IS NULL;`

func openDatabase(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database URL is not a postgres:// URL") // pgx's error would quote it
	}
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// Two processes that start at once would both create the tables.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('acquirer'))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("create the acquirer's tables: %w", err)
	}
	return db, nil
}

// Kinds of objects, as their field "object" has them.
const (
	kindIntent  = "payment_intent"
	kindToken   = "confirmation_token"
	kindMethod  = "payment_method"
	kindCharge  = "charge"
	kindBalance = "balance_transaction"
	kindRefund  = "refund"
	kindDispute = "dispute"
	kindWarning = "radar.early_fraud_warning"
	kindEvent   = "event"
)

// insert stores a new object. cardName is "" for objects without a card.
func insert(ctx context.Context, tx pgx.Tx, o object, intentID, cardName string) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO acquirer.object (id, kind, intent_id, card, body) VALUES ($1, $2, nullif($3, ''), nullif($4, ''), $5)`,
		o.text("id"), o.text("object"), intentID, cardName, body)
	return err
}

// update stores the object's present body.
func update(ctx context.Context, tx pgx.Tx, o object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE acquirer.object SET body = $2 WHERE id = $1`, o.text("id"), body)
	return err
}

// errMissing means that there is no such object.
var errMissing = errors.New("no such object")

// find returns an object and the name of its card. The row stays locked until the transaction ends.
func find(ctx context.Context, tx pgx.Tx, kind, id string) (object, string, error) {
	var body []byte
	var cardName string
	err := tx.QueryRow(ctx, `
		SELECT body, coalesce(card, '') FROM acquirer.object WHERE id = $1 AND kind = $2 FOR UPDATE`,
		id, kind).Scan(&body, &cardName)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, "", errMissing
	}
	if err != nil {
		return nil, "", err
	}
	o, err := readObject(bytes.NewReader(body))
	return o, cardName, err
}

// A page selects objects of a kind for a list.
type page struct {
	kind, intentID string
	types          []string // of events; empty means all
	since, until   int64    // seconds since 1970, both inclusive; 0 means without
	after, before  string   // ids
	limit          int
}

// list returns the asked objects, youngest first, and whether there are more.
func list(ctx context.Context, tx pgx.Tx, p page) ([]object, bool, error) {
	order, conditions, args := "DESC", []string{"kind = $1"}, []any{p.kind}
	where := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, fmt.Sprintf(condition, len(args)))
	}
	if p.intentID != "" {
		where("intent_id = $%d", p.intentID)
	}
	if p.since != 0 {
		where("(body ->> 'created')::bigint >= $%d", p.since)
	}
	if p.until != 0 {
		where("(body ->> 'created')::bigint <= $%d", p.until)
	}
	if len(p.types) > 0 {
		where("body ->> 'type' = ANY ($%d)", p.types)
	}
	if p.after != "" {
		where("number < (SELECT number FROM acquirer.object WHERE id = $%d)", p.after)
	}
	if p.before != "" {
		order = "ASC"
		where("number > (SELECT number FROM acquirer.object WHERE id = $%d)", p.before)
	}
	args = append(args, p.limit+1)
	// Only the fixed conditions above and the numbers of arguments are put together.
	rows, _ := tx.Query(ctx, `SELECT body FROM acquirer.object WHERE `+strings.Join(conditions, " AND ")+
		` ORDER BY number `+order+fmt.Sprintf(` LIMIT $%d`, len(args)), args...) // CollectRows returns the error
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, false, err
	}
	objects := make([]object, 0, len(bodies))
	for _, body := range bodies {
		o, err := readObject(bytes.NewReader(body))
		if err != nil {
			return nil, false, err
		}
		objects = append(objects, o)
	}
	more := len(objects) > p.limit
	objects = objects[:min(len(objects), p.limit)]
	if order == "ASC" {
		slices.Reverse(objects)
	}
	return objects, more, nil
}
