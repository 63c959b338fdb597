package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// FailureRules say when a registration that fails is marked, and when it is put on hold. 0 means never. Source:
// api/decisions/webhooks.md, "a registration that fails".
type FailureRules struct {
	FailingAfter time.Duration // all of its first attempts failed for so long
	HeldAfter    time.Duration // nothing arrived for so long
}

// failureQueries returns the part of FinishAttempt that keeps webhook_endpoint_failure, after the rows attempt. It has
// no more than the attempt needs, because PostgreSQL plans it each time. A healthy registration costs a look for its
// row. One that fails is written once, and then every few seconds, however many attempts fail: nobody waits for its row
// for long.
//
// Deliveries to a session's own webhook_url tell nothing about the registration that signs them, and neither does
// an attempt that failed through our fault.
func failureQueries(a webhook.Attempt) string {
	switch {
	case a.ErrorKind == webhook.ErrorInternal:
		return ""
	case a.ErrorKind == "" && a.Number == 1:
		return failureEnds
	case a.ErrorKind == "":
		return fmt.Sprintf(failureGoesOn, "arrived_at")
	case a.Number == 1:
		return failureBegins + fmt.Sprintf(failureGoesOn, "last_at")
	}
	return fmt.Sprintf(failureGoesOn, "last_at")
}

// The parts of failureQueries.
const (
	failureEnds = `, works AS (
		DELETE FROM webhook_endpoint_failure f USING attempt, webhook_delivery d
		WHERE d.id = attempt.delivery_id AND NOT d.session_url AND f.endpoint_id = d.endpoint_id
			AND f.since <= attempt.ended_at AND f.held_at IS NULL
	)`
	failureBegins = `, fails AS (
		INSERT INTO webhook_endpoint_failure (endpoint_id, since, last_at)
		SELECT w.id, attempt.ended_at, attempt.ended_at FROM attempt
			JOIN webhook_delivery d ON d.id = attempt.delivery_id AND NOT d.session_url
			JOIN webhook_endpoint w ON w.id = d.endpoint_id AND w.status = 'enabled' AND w.deleted_at IS NULL
		ON CONFLICT DO NOTHING
	)`
	failureGoesOn = `, goes_on AS (
		UPDATE webhook_endpoint_failure f SET %[1]s = attempt.ended_at FROM attempt, webhook_delivery d
		WHERE d.id = attempt.delivery_id AND NOT d.session_url AND f.endpoint_id = d.endpoint_id
			AND coalesce(f.%[1]s, f.since) < attempt.ended_at - interval '5 seconds'
	)`
)

// failingSince selects since when the registration w fails; NULL when it is not marked.
const failingSince = `(SELECT f.since FROM webhook_endpoint_failure f WHERE f.endpoint_id = w.id AND f.marked_at IS NOT NULL)`

// backsSession selects the registrations r whose secret may sign for a session's own webhook_url: those that are
// enabled, and those that the service put on hold. A session's address works although another one fails, so the
// secret that signs for it does not change without a person.
const backsSession = `(r.status = 'enabled' OR EXISTS (
	SELECT FROM webhook_endpoint_failure f WHERE f.endpoint_id = r.id AND f.held_at IS NOT NULL))`

// toMark and toHold select the failures f whose time has come. $1 and $2 are the times of FailureRules. The last
// failed attempt counts, not the clock: a registration without deliveries proves nothing. toHold looks at later
// attempts too, because events that arrive late are better than events that wait.
const (
	toMark = `(f.marked_at IS NULL AND $1 > interval '0' AND f.last_at - f.since >= $1::interval)`
	toHold = `(f.held_at IS NULL AND $2 > interval '0'
		AND f.last_at - greatest(f.since, coalesce(f.arrived_at, f.since)) >= $2::interval)`
)

// FailingEndpoints returns up to limit registrations of all merchants that are to be marked or put on hold, the one
// that failed first at the beginning.
func (s *WebhookReader) FailingEndpoints(ctx context.Context, rules FailureRules, limit int) ([]checkout.Ref, error) {
	return s.deliveryRefs(ctx, `
		SELECT w.id, w.merchant_id, w.mode FROM webhook_endpoint_failure f
		JOIN webhook_endpoint w ON w.id = f.endpoint_id AND w.deleted_at IS NULL AND w.status = 'enabled'
		WHERE `+toMark+` OR `+toHold+` ORDER BY f.since LIMIT $3`, rules.FailingAfter, rules.HeldAfter, limit)
}

// JudgeEndpoint marks a registration as failing, or puts it on hold, when its time has come. The owners and
// developers of the merchant get a mail in the same transaction, and the audit log an entry of a hold. It does
// nothing when an attempt has arrived meanwhile, when somebody else was first, and when a person has put the
// registration on hold or deleted it.
func (s *Webhooks) JudgeEndpoint(ctx context.Context, ref checkout.Ref, rules FailureRules) error {
	return pg.RunInTx(ctx, s.pool, "judge webhook registration", func(tx pgx.Tx) error {
		e, err := pg.One[webhook.Endpoint](ctx, tx, selectEndpoint+ownEndpoint+` AND w.status = 'enabled' FOR NO KEY UPDATE`,
			ref.MerchantID, ref.Mode, ref.ID)
		if errors.Is(err, checkout.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var (
			since time.Time
			held  bool
		)
		err = tx.QueryRow(ctx, `
			UPDATE webhook_endpoint_failure f SET marked_at = coalesce(f.marked_at, clock_timestamp()),
				held_at = CASE WHEN `+toHold+` THEN clock_timestamp() END
			WHERE f.endpoint_id = $3 AND (`+toMark+` OR `+toHold+`) RETURNING f.since, f.held_at IS NOT NULL`,
			rules.FailingAfter, rules.HeldAfter, ref.ID).Scan(&since, &held)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case held:
			return holdFailing(ctx, tx, e, since)
		}
		return mailAbout(ctx, tx, e, since, merchant.MailEndpointFailing)
	})
}

// holdFailing puts a registration on hold, as a person would. What waits for it is kept until a person resumes it.
func holdFailing(ctx context.Context, tx pgx.Tx, e webhook.Endpoint, since time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook_endpoint SET status = 'disabled', changed_at = clock_timestamp()
		WHERE merchant_id = $1 AND mode = $2 AND id = $3`, e.MerchantID, e.Mode, e.ID)
	if err != nil {
		return err
	}
	err = pg.Audit(ctx, tx, merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: e.MerchantID, Mode: &e.Mode, Actor: "the service",
		Action: "webhook.held", Subject: e.ID,
		Detail: "status: enabled → disabled; every first attempt has failed since " + spokenTime(since),
	})
	if err != nil {
		return err
	}
	return mailAbout(ctx, tx, e, since, merchant.MailEndpointHeld)
}

// mailAbout writes a mail about a registration to those who may change it. It names the host, because a path can be
// a secret.
func mailAbout(ctx context.Context, tx pgx.Tx, e webhook.Endpoint, since time.Time, kind merchant.MailKind) error {
	to := []merchant.Role{merchant.RoleOwner, merchant.RoleDeveloper}
	return people.MailRoles(ctx, tx, e.MerchantID, to, kind, string(e.Mode)+"/webhooks/"+e.ID, fmt.Sprintf(
		"Webhook: %s (%s), %s mode\nEvery first attempt has failed since %s.",
		webhook.HostPortOf(e.URL), e.ID, e.Mode, spokenTime(since)))
}

func spokenTime(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 UTC") }

// forgetFailure begins anew with a registration: a person resumed it, or it has another URL, or it was deleted.
func forgetFailure(ctx context.Context, tx pgx.Tx, ref checkout.Ref) error {
	_, err := tx.Exec(ctx, `DELETE FROM webhook_endpoint_failure WHERE endpoint_id = $1`, ref.ID)
	return err
}
