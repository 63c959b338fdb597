package storage

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// ErrTooManyEndpoints: the merchant has webhook.MaxEndpoints in this mode.
var ErrTooManyEndpoints = errors.New("too many webhook registrations")

// CreateEndpoint stores a registration and the sealed digest of e.Secret, never
// the secret. It returns e with its time of creation, or ErrTooManyEndpoints.
// Repeating it with the same id changes nothing; it returns checkout.ErrNotFound
// when the registration was deleted in the meantime.
//
// by notes the change in the same transaction; a repeat is noted no more.
func (s *Store) CreateEndpoint(ctx context.Context, e webhook.Endpoint, by ...checkout.AuditEntry) (webhook.Endpoint, error) {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		// The merchant's row serializes its registrations, so that the limit holds.
		if _, err := tx.Exec(ctx, `SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, e.MerchantID); err != nil {
			return err
		}
		switch again, err := scanEndpoint(tx.QueryRow(ctx, selectEndpoint+ownEndpoint, e.MerchantID, e.Mode, e.ID)); {
		case err == nil:
			again.Secret = e.Secret
			e = again
			return nil
		case !errors.Is(err, checkout.ErrNotFound):
			return err
		}
		var count int
		err := tx.QueryRow(ctx, `
			SELECT count(*) FROM webhook_endpoint
			WHERE merchant_id = $1 AND mode = $2 AND session_id IS NULL AND deleted_at IS NULL`, e.MerchantID, e.Mode).Scan(&count)
		if err != nil {
			return err
		}
		if count >= webhook.MaxEndpoints {
			return ErrTooManyEndpoints
		}
		if err := s.insertEndpoint(ctx, tx, &e, nil); err != nil {
			return err
		}
		return auditAll(ctx, tx, by)
	})
	if violates(err, "webhook_endpoint_pkey") { // the same request again, but what it created was deleted
		err = checkout.ErrNotFound
	}
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("create webhook registration: %w", err)
	}
	return e, nil
}

// insertSessionSecret stores the secret of one session's webhook_url as an
// endpoint that is not listed and gets nothing else.
func (s *Store) insertSessionSecret(ctx context.Context, tx pgx.Tx, n NewSession) (string, error) {
	e := webhook.Endpoint{
		Ref: n.Owner.Ref(n.OwnEndpoint()),
		URL: *n.WebhookURL, Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: n.Secret,
	}
	err := s.insertEndpoint(ctx, tx, &e, &n.ID)
	return e.ID, err
}

func (s *Store) insertEndpoint(ctx context.Context, tx pgx.Tx, e *webhook.Endpoint, sessionID *string) error {
	keyID, sealed := s.keys.seal(e.ID, webhook.SecretDigest(e.Secret))
	return tx.QueryRow(ctx, `
		INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, description, status, session_id, master_key_id, sealed_digest, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, date_trunc('milliseconds', clock_timestamp())) RETURNING created_at`,
		e.ID, e.MerchantID, e.Mode, e.URL, e.Events, e.Description, e.Status, sessionID, keyID, sealed).Scan(&e.CreatedAt)
}

const (
	selectEndpointColumns = `
		SELECT id, merchant_id, mode, url, events, description, status, created_at,
			CASE WHEN previous_expires_at > clock_timestamp() THEN previous_expires_at END `
	selectEndpoint = selectEndpointColumns + `FROM webhook_endpoint w `
)

// ownEndpoint is the condition of a registration that is there.
const ownEndpoint = `WHERE w.merchant_id = $1 AND w.mode = $2 AND w.id = $3 AND w.session_id IS NULL AND w.deleted_at IS NULL`

func scanEndpoint(row pgx.Row) (e webhook.Endpoint, err error) {
	err = row.Scan(&e.ID, &e.MerchantID, &e.Mode, &e.URL, &e.Events, &e.Description, &e.Status, &e.CreatedAt, &e.RotatingUntil)
	if errors.Is(err, pgx.ErrNoRows) {
		err = checkout.ErrNotFound
	}
	return e, err
}

// Endpoint returns one registration. It returns checkout.ErrNotFound.
func (s *Store) Endpoint(ctx context.Context, ref checkout.Ref) (webhook.Endpoint, error) {
	e, err := scanEndpoint(s.pool.QueryRow(ctx, selectEndpoint+ownEndpoint, ref.MerchantID, ref.Mode, ref.ID))
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("webhook registration: %w", err)
	}
	return e, nil
}

// Endpoints lists registrations, newest first.
func (s *Store) Endpoints(ctx context.Context, owner checkout.Owner, status webhook.EndpointStatus, p Page) ([]webhook.Endpoint, error) {
	q := newList(owner, "w")
	q.where("w.session_id IS NULL AND w.deleted_at IS NULL")
	q.equal("w.status", string(status))
	q.page(checkout.PrefixEndpoint, "w", p)
	rows, err := s.pool.Query(ctx, selectEndpoint+q.sql, q.args...)
	if err != nil {
		return nil, fmt.Errorf("webhook registrations: %w", err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (webhook.Endpoint, error) { return scanEndpoint(row) })
	if err != nil {
		return nil, fmt.Errorf("webhook registrations: %w", err)
	}
	return got, nil
}

// EndpointChange is what of a registration is to change; nil stays.
type EndpointChange struct {
	URL              *string
	Events           []webhook.EventType
	Description      *string
	ClearDescription bool
	Status           *webhook.EndpointStatus
	// Was is what the person who changes it saw; nil does not look. See ChangedError.
	Was *webhook.Endpoint
}

// conflicts are the fields that c changes although they are not what was seen.
func (c EndpointChange) conflicts(now webhook.Endpoint) (fields []string) {
	if c.Was == nil {
		return nil
	}
	if c.URL != nil && now.URL != c.Was.URL && now.URL != *c.URL {
		fields = append(fields, "url")
	}
	if c.Events != nil && !slices.Equal(now.Events, c.Was.Events) && !slices.Equal(now.Events, c.Events) {
		fields = append(fields, "events")
	}
	if is := deref(now.Description); (c.Description != nil || c.ClearDescription) && is != deref(c.Was.Description) && is != deref(c.Description) {
		fields = append(fields, "description")
	}
	return fields
}

// ChangeEndpoint changes a registration and returns it. A new URL holds for the
// attempts to come of deliveries that exist already; disabling puts all of them
// on hold. It returns checkout.ErrNotFound and *ChangedError. by is as of
// CreateEndpoint; its detail, what each field was and is, is written here.
func (s *Store) ChangeEndpoint(ctx context.Context, ref checkout.Ref, c EndpointChange, by ...checkout.AuditEntry) (webhook.Endpoint, error) {
	var e webhook.Endpoint
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		now, err := scanEndpoint(tx.QueryRow(ctx, selectEndpoint+ownEndpoint+` FOR NO KEY UPDATE`, ref.MerchantID, ref.Mode, ref.ID))
		if err != nil {
			return err
		}
		if fields := c.conflicts(now); len(fields) > 0 {
			return &ChangedError{fields}
		}
		e, err = scanEndpoint(tx.QueryRow(ctx, `
			WITH w AS (
				UPDATE webhook_endpoint w SET url = coalesce($4, url), events = coalesce($5, events), status = coalesce($8, status),
					changed_at = clock_timestamp(), description = CASE WHEN $7 THEN NULL ELSE coalesce($6, description) END `+ownEndpoint+`
				RETURNING *
			) `+selectEndpointColumns+`FROM w`,
			ref.MerchantID, ref.Mode, ref.ID, c.URL, c.Events, c.Description, c.ClearDescription, c.Status))
		if err != nil {
			return err
		}
		return auditAll(ctx, tx, endpointChanged(by, now, e))
	})
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("change webhook registration: %w", err)
	}
	return e, nil
}

// endpointChanged fills in what changed; nothing is noted when nothing did. Of a
// URL the log has the host only: a path can be a secret.
func endpointChanged(by []checkout.AuditEntry, was, is webhook.Endpoint) []checkout.AuditEntry {
	var detail []string
	note := func(what, was, is string) {
		if was != is {
			detail = append(detail, fmt.Sprintf("%s: %s → %s", what, was, is))
		}
	}
	if was.URL != is.URL && webhook.HostOf(was.URL) == webhook.HostOf(is.URL) {
		detail = append(detail, "another URL of "+webhook.HostOf(is.URL))
	}
	note("URL of", webhook.HostOf(was.URL), webhook.HostOf(is.URL))
	note("events", fmt.Sprint(was.Events), fmt.Sprint(is.Events))
	note("description", "“"+deref(was.Description)+"”", "“"+deref(is.Description)+"”")
	note("status", string(was.Status), string(is.Status))
	if len(detail) == 0 {
		return nil
	}
	noted := slices.Clone(by)
	for i := range noted {
		noted[i].Detail = strings.Join(detail, "; ")
	}
	return noted
}

// DeleteEndpoint removes a registration: nothing more is sent to it, and
// Reconcile cancels its pending deliveries. Its secret signs nothing more, for
// sessions' own addresses either; see signerOf. Its row stays for the log. It
// returns checkout.ErrNotFound. by is as of CreateEndpoint.
func (s *Store) DeleteEndpoint(ctx context.Context, ref checkout.Ref, by ...checkout.AuditEntry) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE webhook_endpoint w SET deleted_at = clock_timestamp() `+ownEndpoint, ref.MerchantID, ref.Mode, ref.ID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return checkout.ErrNotFound
		}
		return auditAll(ctx, tx, by)
	})
	if err != nil {
		return fmt.Errorf("delete webhook registration: %w", err)
	}
	return nil
}

// RotateSecret gives a registration the new secret; the one before goes on
// signing beside it for overlap, and the one before that stops at once.
// Repeating it with the same secret changes nothing. It returns the registration
// with the secret, or checkout.ErrNotFound. by is as of CreateEndpoint.
func (s *Store) RotateSecret(ctx context.Context, ref checkout.Ref, secret string, overlap time.Duration, by ...checkout.AuditEntry) (webhook.Endpoint, error) {
	var e webhook.Endpoint
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var (
			keyID  string
			sealed []byte
		)
		err := tx.QueryRow(ctx, `SELECT master_key_id, sealed_digest FROM webhook_endpoint w `+ownEndpoint+` FOR NO KEY UPDATE`, ref.MerchantID, ref.Mode, ref.ID).Scan(&keyID, &sealed)
		if errors.Is(err, pgx.ErrNoRows) {
			return checkout.ErrNotFound
		}
		if err != nil {
			return err
		}
		current, err := s.keys.unseal(keyID, ref.ID, sealed)
		if err != nil {
			return err
		}
		if subtle.ConstantTimeCompare(current, webhook.SecretDigest(secret)) == 1 {
			e, err = scanEndpoint(tx.QueryRow(ctx, selectEndpoint+ownEndpoint, ref.MerchantID, ref.Mode, ref.ID))
			return err
		}
		keyID, sealed = s.keys.seal(ref.ID, webhook.SecretDigest(secret))
		e, err = scanEndpoint(tx.QueryRow(ctx, `
			WITH w AS (
				UPDATE webhook_endpoint w SET previous_master_key_id = master_key_id, previous_sealed_digest = sealed_digest,
					previous_expires_at = date_trunc('milliseconds', clock_timestamp()) + $6::interval, master_key_id = $4, sealed_digest = $5 `+ownEndpoint+`
				RETURNING *
			) `+selectEndpointColumns+`FROM w`, ref.MerchantID, ref.Mode, ref.ID, keyID, sealed, overlap))
		if err != nil {
			return err
		}
		return auditAll(ctx, tx, by)
	})
	if err != nil {
		return webhook.Endpoint{}, fmt.Errorf("rotate secret: %w", err)
	}
	e.Secret = secret
	return e, nil
}

// SigningKeys are what signs, or signed, for one registration, or for the
// webhook_url of one session.
type SigningKeys struct {
	EndpointID string
	SessionID  string // set: the secret of that session's webhook_url, not a registration's
	Deleted    bool   // the registration is gone
	Current    []byte
	Previous   []byte     // nil when the secret was never rotated, or longer ago than ExplainedFor
	Until      *time.Time // when Previous stopped or stops signing
}

// ExplainedFor is how long after its end a previous secret is still known to
// explain a signature: whoever deployed the new one late finds out in a week.
const ExplainedFor = 7 * 24 * time.Hour

// SigningKeys returns the digests that sign for each of the merchant's
// registrations, and those that signed the deliveries of the event with that
// id, deleted ones too, to find out which one signed something; eventID may be empty. They never
// leave the process.
func (s *Store) SigningKeys(ctx context.Context, owner checkout.Owner, eventID string) ([]SigningKeys, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, coalesce(session_id, ''), deleted_at IS NOT NULL,
			master_key_id, sealed_digest, CASE WHEN recent THEN previous_master_key_id END, CASE WHEN recent THEN previous_sealed_digest END, previous_expires_at
		FROM webhook_endpoint, LATERAL (SELECT previous_expires_at > clock_timestamp() - $4::interval AS recent) AS previous
		WHERE merchant_id = $1 AND mode = $2 AND (session_id IS NULL AND deleted_at IS NULL
			OR id IN (SELECT d.endpoint_id FROM webhook_delivery d WHERE d.event_id = $3 AND d.merchant_id = $1 AND d.mode = $2)
			OR id IN (SELECT s.signing_endpoint_id FROM checkout_session s JOIN event e ON e.session_id = s.id
				WHERE e.id = $3 AND s.merchant_id = $1 AND s.mode = $2))
		ORDER BY deleted_at IS NOT NULL, id`, owner.MerchantID, owner.Mode, eventID, ExplainedFor)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	got, err := pgx.CollectRows(rows, s.scanSigningKeys)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	return got, nil
}

func (s *Store) scanSigningKeys(row pgx.CollectableRow) (SigningKeys, error) {
	var (
		k  SigningKeys
		by = signature{Signer: &k.EndpointID}
	)
	if err := row.Scan(&k.EndpointID, &k.SessionID, &k.Deleted, &by.KeyID, &by.Sealed, &by.PreviousKeyID, &by.Previous, &k.Until); err != nil {
		return k, err
	}
	digests, err := s.unsealDigests(by)
	if err != nil {
		return k, err
	}
	k.Current = digests[0]
	if len(digests) > 1 {
		k.Previous = digests[1]
	}
	return k, nil
}

// SigningEndpoint returns the registration whose secret signs what is sent to
// url as a session's webhook_url: the oldest enabled one with that very URL,
// else the oldest enabled one; "" when the merchant has none in this mode.
// Source: api/decisions.md, "which secret signs".
func (s *Store) SigningEndpoint(ctx context.Context, owner checkout.Owner, url string) (string, error) {
	var id string
	err := s.pool.QueryRow(ctx, `
		SELECT id FROM webhook_endpoint
		WHERE merchant_id = $1 AND mode = $2 AND session_id IS NULL AND deleted_at IS NULL AND status = 'enabled'
		ORDER BY url = $3 DESC, created_at, id LIMIT 1`, owner.MerchantID, owner.Mode, url).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("signing registration: %w", err)
	}
	return id, nil
}
