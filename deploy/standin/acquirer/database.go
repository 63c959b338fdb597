package acquirer

import (
	"context"
	_ "embed" // for schema.sql
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schema string

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
	kindFile    = "file"
)

// newObject returns stripe-mock's example of an object with a new id. path is that of the objects of its kind.
func (d desk) newObject(path, prefix string) (object, error) {
	id := newID(prefix)
	o, err := d.mock.fixture(d.ctx, path+id)
	if err != nil {
		return nil, err
	}
	o["id"], o["created"], o["livemode"] = id, time.Now().Unix(), d.options.Livemode
	return o, nil
}

// insert stores a new object. cardName is "" for objects without a card.
func (d desk) insert(o object, intentID, cardName string) error {
	_, err := d.tx.Exec(d.ctx, `
		INSERT INTO acquirer.object (id, kind, intent_id, card, body) VALUES ($1, $2, nullif($3, ''), nullif($4, ''), $5)`,
		o.text("id"), o.text("object"), intentID, cardName, o)
	return err
}

// update stores the object's present body.
func (d desk) update(o object) error {
	_, err := d.tx.Exec(d.ctx, `UPDATE acquirer.object SET body = $2 WHERE id = $1`, o.text("id"), o)
	return err
}

// find returns an object, or a refusal with status 404. The row stays locked until the transaction ends.
func (d desk) find(kind, id string) (o object, err error) {
	err = d.tx.QueryRow(d.ctx, `SELECT body FROM acquirer.object WHERE id = $1 AND kind = $2 FOR UPDATE`, id, kind).
		Scan(&o)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, missing(kind, id)
	}
	return o, err
}

// findNamed is find for an id in a form: the refusal has status 400.
func (d desk) findNamed(kind, id string) (object, error) {
	o, err := d.find(kind, id)
	if refused, is := errors.AsType[answer](err); is {
		refused.status = http.StatusBadRequest
		err = refused
	}
	return o, err
}

// cardOf returns the card of a token, a payment method, a charge or a refund.
func (d desk) cardOf(o object) (card, error) {
	var name string
	err := d.tx.QueryRow(d.ctx, `SELECT coalesce(card, '') FROM acquirer.object WHERE id = $1`, o.text("id")).Scan(&name)
	return cardNamed(name), err
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
func (d desk) list(p page) (objects []object, more bool, err error) {
	order := "DESC"
	if p.before != "" {
		order = "ASC"
	}
	// CollectRows returns the error.
	rows, _ := d.tx.Query(d.ctx, `
		SELECT body FROM acquirer.object
		WHERE kind = $1 AND ($2::text = '' OR intent_id = $2)
			AND ($3::bigint = 0 OR (body ->> 'created')::bigint >= $3)
			AND ($4::bigint = 0 OR (body ->> 'created')::bigint <= $4)
			AND ($5::text[] IS NULL OR body ->> 'type' = ANY ($5))
			AND ($6::text = '' OR number < (SELECT number FROM acquirer.object WHERE id = $6))
			AND ($7::text = '' OR number > (SELECT number FROM acquirer.object WHERE id = $7))
		ORDER BY number `+order+` LIMIT $8`,
		p.kind, p.intentID, p.since, p.until, p.types, p.after, p.before, p.limit+1)
	if objects, err = pgx.CollectRows(rows, pgx.RowTo[object]); err != nil {
		return nil, false, err
	}
	more = len(objects) > p.limit
	objects = objects[:min(len(objects), p.limit)]
	if order == "ASC" {
		slices.Reverse(objects)
	}
	return objects, more, nil
}
