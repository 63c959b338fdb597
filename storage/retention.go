package storage

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// DeleteFinished deletes up to limit deliveries that ended more than age ago, oldest first, with
// their attempts. It also deletes events that lost their last delivery. An unfinished delivery
// stays, however old. It returns the number of deleted deliveries; 0 means that none is left.
func (s *Installation) DeleteFinished(ctx context.Context, age time.Duration, limit int) (int, error) {
	return pg.InTx(ctx, s.pool, "delete finished deliveries", func(tx pgx.Tx) (deleted int, err error) {
		events, err := pg.Values[string](ctx, tx, `
			WITH old AS (
				SELECT id FROM webhook_delivery
				WHERE id < $1 AND status <> 'pending' AND finished_at < clock_timestamp() - $2::interval
				ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
			), attempt AS (
				DELETE FROM webhook_attempt a USING old WHERE a.delivery_id = old.id
			)
			DELETE FROM webhook_delivery d USING old WHERE d.id = old.id RETURNING d.event_id`,
			oldID(checkout.PrefixDelivery, age), age, limit)
		if err != nil {
			return deleted, err
		}
		deleted = len(events)
		_, err = tx.Exec(ctx, `
			DELETE FROM event e WHERE e.id = ANY ($1)
				AND NOT EXISTS (SELECT FROM webhook_delivery d WHERE d.event_id = e.id)`, events)
		return deleted, err
	})
}

// DeleteUnsentEvents looks at up to limit events older than age, after the id after. It deletes those events that have
// no delivery. It returns the last id it looked at, "" when no event is left, and the number of deleted events.
func (s *Installation) DeleteUnsentEvents(
	ctx context.Context, age time.Duration, after string, limit int,
) (last string, deleted int, err error) {
	// Look at the rows one by one: a plan for all of them at once would read the whole log.
	err = s.pool.QueryRow(ctx, `
		WITH old AS MATERIALIZED (
			SELECT id FROM event WHERE id > $1 AND id < $2 AND created_at < clock_timestamp() - $3::interval ORDER BY id LIMIT $4
		), unsent AS MATERIALIZED (
			SELECT old.id FROM old LEFT JOIN LATERAL (SELECT 1 AS sent FROM webhook_delivery d
				WHERE d.event_id = old.id LIMIT 1) d ON true WHERE d.sent IS NULL
		), gone AS (
			DELETE FROM event e USING unsent WHERE e.id = unsent.id RETURNING e.id
		)
		SELECT coalesce((SELECT max(id) FROM old), ''), (SELECT count(*) FROM gone)`,
		after, oldID(checkout.PrefixEvent, age), age, limit).Scan(&last, &deleted)
	return last, deleted, pg.Wrap("delete unsent events", err)
}

// DeleteOldSessions looks at up to limit sessions, with ids after the id after, that ended more than age
// ago. It deletes them with their payments, disputes and payouts and the secrets of their webhook_url. A session
// stays when a real card network or chain knows a payment of it, because the ledger and the comparison
// with that network need it. It also stays while the log has an event of it, or its payout is pending. It
// returns the last id it looked at, "" when no session is left, and the number of deleted sessions.
func (s *Installation) DeleteOldSessions(
	ctx context.Context, age time.Duration, after string, limit int,
) (last string, deleted int, err error) {
	err = s.pool.QueryRow(ctx, deleteOldSessions,
		after, oldID(checkout.PrefixSession, age), age, limit).Scan(&last, &deleted)
	return last, deleted, pg.Wrap("delete old sessions", err)
}

// deleteOldSessions works for all merchants and both modes. The foreign keys are checked at the end of the statement.
const deleteOldSessions = `
	WITH old AS MATERIALIZED (
		SELECT id FROM checkout_session
		WHERE id > $1 AND id < $2 AND status <> 'pending' AND (mode = 'test' OR status <> 'completed')
			AND ended_at < clock_timestamp() - $3::interval
		ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED
	), removable AS MATERIALIZED (
		SELECT old.id FROM old
		WHERE NOT EXISTS (SELECT FROM transaction t WHERE t.session_id = old.id AND t.acquirer_ref IS NOT NULL
				AND (t.acquirer <> 'sandbox' OR t.chain_ref <> 'sandbox'))
			AND NOT EXISTS (SELECT FROM payout p WHERE p.session_id = old.id AND p.status = 'pending')
			AND NOT EXISTS (SELECT FROM reserve r JOIN transaction t ON t.id = r.transaction_id
				WHERE t.session_id = old.id AND r.released_at IS NULL)
			AND NOT EXISTS (SELECT FROM event e WHERE e.session_id = old.id)
	), paid AS MATERIALIZED (
		SELECT t.id FROM transaction t JOIN removable r ON t.session_id = r.id
	), no_risk AS (
		DELETE FROM charge_risk c USING paid WHERE c.transaction_id = paid.id
	), no_refund AS (
		DELETE FROM refund c USING paid WHERE c.transaction_id = paid.id
	), no_reserve AS (
		DELETE FROM reserve c USING paid WHERE c.transaction_id = paid.id
	), no_payout AS (
		DELETE FROM payout p USING removable r WHERE p.session_id = r.id
	), no_payment AS (
		DELETE FROM transaction t USING removable r WHERE t.session_id = r.id
	), no_secret AS (
		DELETE FROM webhook_endpoint w USING removable r WHERE w.session_id = r.id
	), gone AS (
		DELETE FROM checkout_session s USING removable r WHERE s.id = r.id RETURNING s.id
	)
	SELECT coalesce((SELECT max(id) FROM old), ''), (SELECT count(*) FROM gone)`

// DeleteOldAuditEntries deletes up to limit entries of the audit log that are older than age, oldest
// first. It returns their number; 0 means that none is left.
func (s *Installation) DeleteOldAuditEntries(ctx context.Context, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, `
		WITH old AS (
			SELECT id FROM audit_entry WHERE id < $1 AND created_at < clock_timestamp() - $2::interval
			ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
		)
		DELETE FROM audit_entry a USING old WHERE a.id = old.id`, oldID(checkout.PrefixAuditEntry, age), age, limit)
	return int(tag.RowsAffected()), pg.Wrap("delete old audit entries", err)
}

// OldRows is a kind of rows that go when they are old. Their time has an index.
type OldRows struct{ table, key, time, unless string }

// Kinds of rows that DeleteOld deletes, of all merchants and both modes.
var (
	OldAnswers          = OldRows{table: "idempotent_request", key: "merchant_id, mode, route, key", time: "created_at"}
	OldMails            = OldRows{table: "mail", key: "id", time: "created_at"}
	OldPictures         = OldRows{table: "picture", key: "id", time: "last_used_at"} // no new session uses them
	OldAPIRequests      = OldRows{table: "api_request", key: "merchant_id, mode, id", time: "created_at"}
	OldSandboxTransfers = OldRows{table: "sandbox_transfer", key: "tx_hash", time: "created_at"}
	// OldSandboxCharges leaves a charge that still owes a callback.
	OldSandboxCharges = OldRows{
		table: "sandbox_charge", key: "transaction_id", time: "created_at", unless: "callbacks > 0",
	}
)

// DeleteOld deletes up to limit rows of a kind that are older than age, oldest first. It returns their
// number; 0 means that none is left.
func (s *Installation) DeleteOld(ctx context.Context, rows OldRows, age time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, rows.deletion(), age, limit)
	return int(tag.RowsAffected()), pg.Wrap("delete old rows of "+rows.table, err)
}

// deletion returns the statement of DeleteOld. It uses statement_timestamp(): with clock_timestamp()
// PostgreSQL would read the index to its end when no row is old.
func (r OldRows) deletion() string {
	return fmt.Sprintf(`
		WITH old AS MATERIALIZED (
			SELECT %[2]s FROM %[1]s
			WHERE %[3]s < statement_timestamp() - $1::interval AND NOT (%[4]s)
			ORDER BY %[3]s LIMIT $2 FOR UPDATE SKIP LOCKED
		)
		DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM old)`, r.table, r.key, r.time, cmp.Or(r.unless, "false"))
}

// oldID returns an id that sorts after the ids of rows older than age.
func oldID(prefix string, age time.Duration) string {
	return checkout.FirstID(prefix, time.Now().Add(-age+checkout.ClockSkew))
}
