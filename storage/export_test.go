package storage

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// BacklogQuery is the query of Backlog.
const BacklogQuery = backlog

// EventFeedQuery is the query of EventFeed.
const EventFeedQuery = eventFeed

// DeleteOldSessionsQuery is the query of DeleteOldSessions.
const DeleteOldSessionsQuery = deleteOldSessions

// DeleteOldQuery is the query of DeleteOld.
func DeleteOldQuery(rows OldRows) string { return rows.deletion() }

// UselessCardsQuery selects the payments whose card nobody needs.
const UselessCardsQuery = uselessCards

// Publish stores an event of a session with its deliveries.
func (s *Store) Publish(ctx context.Context, session checkout.Session, typ webhook.EventType) ([]webhook.Dispatch, error) {
	return pg.InTx(ctx, s.pool, "publish", func(tx pgx.Tx) ([]webhook.Dispatch, error) {
		return publish(ctx, tx, publication{
			Ref: checkout.Ref{Owner: session.Owner}, Type: typ, SubjectID: checkout.NewID(checkout.PrefixTest),
			SessionID: session.ID, At: session.CreatedAt, WebhookURL: session.WebhookURL,
			SigningEndpoint: session.SigningEndpoint,
		})
	})
}

// Pool returns the connections of s.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }
