package storage

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// ErrTooManyEndpoints: the merchant already has webhook.MaxEndpoints in this mode.
var ErrTooManyEndpoints = errors.New("too many webhook registrations")

// CreateEndpoint stores a registration with the sealed digest of e.Secret, never the secret itself.
// It returns e with its creation time, and with a URL without a fragment. It returns ErrTooManyEndpoints. A repeat with
// the same id changes nothing; it returns checkout.ErrNotFound when the registration has been deleted since.
//
// The entries by go to the audit log in the same transaction. A repeat writes none.
func (s *Webhooks) CreateEndpoint(
	ctx context.Context, e webhook.Endpoint, by ...merchant.AuditEntry,
) (webhook.Endpoint, error) {
	e.URL = webhook.WithoutFragment(e.URL)
	e, err := pg.InTx(ctx, s.pool, "create webhook registration", func(tx pgx.Tx) (webhook.Endpoint, error) {
		// The lock on the merchant's row makes its registrations take turns, so the limit holds.
		if _, err := tx.Exec(ctx, `
			SELECT FROM merchant WHERE id = $1 FOR NO KEY UPDATE`, e.MerchantID); err != nil {
			return e, err
		}
		switch again, err := pg.One[webhook.Endpoint](ctx, tx, selectEndpoint+ownEndpoint, e.MerchantID, e.Mode, e.ID); {
		case err == nil:
			again.Secret = e.Secret
			return again, nil
		case !errors.Is(err, checkout.ErrNotFound):
			return e, err
		}

		count, err := pg.Value[int](ctx, tx, `
			SELECT count(*) FROM webhook_endpoint
			WHERE merchant_id = $1 AND mode = $2 AND session_id IS NULL AND deleted_at IS NULL`, e.MerchantID, e.Mode)
		if err != nil {
			return e, err
		}
		if count >= webhook.MaxEndpoints {
			return e, ErrTooManyEndpoints
		}
		if err := insertEndpoint(ctx, tx, s.keys, &e, nil); err != nil {
			return e, err
		}
		return e, pg.Audit(ctx, tx, by...)
	})

	if pg.Violates(err, "webhook_endpoint_pkey") { // a repeat, and the registration was deleted since
		err = checkout.ErrNotFound
	}
	return e, err
}

// insertSessionSecret stores the secret for the webhook_url of one session. Its row is an endpoint
// that no list shows and that receives no other events.
func insertSessionSecret(ctx context.Context, tx pgx.Tx, keys *pg.Keyring, n NewSession) (string, error) {
	e := webhook.Endpoint{
		Ref: n.Owner.Ref(n.OwnEndpoint()),
		URL: *n.WebhookURL, Events: webhook.EventTypes, Status: webhook.EndpointEnabled,
		Secret: n.Secret,
	}
	err := insertEndpoint(ctx, tx, keys, &e, &n.ID)
	return e.ID, err
}

func insertEndpoint(ctx context.Context, tx pgx.Tx, keys *pg.Keyring, e *webhook.Endpoint, sessionID *string) error {
	keyID, sealed := keys.Seal(e.ID, webhook.SecretDigest(e.Secret))
	return tx.QueryRow(ctx, `
		INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, description, status, max_in_flight,
			rate_limit, session_id, master_key_id, sealed_digest, created_at)
		VALUES (@id, @merchant, @mode, @url, @events, @description, @status, @max_in_flight,
			@rate_limit, @session, @key, @sealed, date_trunc('milliseconds', clock_timestamp())) RETURNING created_at`,
		pgx.NamedArgs{
			"id": e.ID, "merchant": e.MerchantID, "mode": e.Mode, "url": e.URL,
			"events": e.Events, "description": e.Description, "status": e.Status,
			"max_in_flight": e.MaxInFlight, "rate_limit": e.RateLimit, "session": sessionID, "key": keyID, "sealed": sealed,
		}).Scan(&e.CreatedAt)
}

const (
	selectEndpointColumns = `
		SELECT id, merchant_id, mode, url, CASE WHEN '*' = ANY (events) THEN '{*}' ELSE events END AS events,
			description, status, max_in_flight, rate_limit, created_at,
			CASE WHEN previous_expires_at > clock_timestamp() THEN previous_expires_at END AS rotating_until,
			` + failingSince + ` AS failing_since `
	selectEndpoint = selectEndpointColumns + `FROM webhook_endpoint w `
)

// ownEndpoint selects one registration that is not deleted.
const ownEndpoint = `
	WHERE w.merchant_id = $1 AND w.mode = $2 AND w.id = $3 AND w.session_id IS NULL AND w.deleted_at IS NULL`

// Endpoint returns one registration. It returns checkout.ErrNotFound.
func (s *WebhookReader) Endpoint(ctx context.Context, ref checkout.Ref) (webhook.Endpoint, error) {
	e, err := pg.One[webhook.Endpoint](ctx, s.pool, selectEndpoint+ownEndpoint, ref.MerchantID, ref.Mode, ref.ID)
	return e, pg.Wrap("webhook registration", err)
}

// Endpoints lists registrations, newest first.
func (s *WebhookReader) Endpoints(
	ctx context.Context, owner checkout.Owner, status webhook.EndpointStatus, p pg.Page,
) ([]webhook.Endpoint, error) {
	q := pg.NewList(owner, "w")
	q.Where("w.session_id IS NULL AND w.deleted_at IS NULL")
	q.Equal("w.status", string(status))
	q.Page(checkout.PrefixEndpoint, "w", p)
	got, err := pg.Collect[webhook.Endpoint](ctx, s.pool, selectEndpoint+q.SQL, q.Args...)
	return got, pg.Wrap("webhook registrations", err)
}

// EndpointChange is a change of a registration. A nil field keeps its value.
type EndpointChange struct {
	URL              *string
	Events           []webhook.EventType
	Description      *string
	ClearDescription bool
	Status           *webhook.EndpointStatus
	MaxInFlight      *int // 0: the default
	RateLimit        *int // 0: the default
	// Was holds the values that the editor saw; nil skips the check. See ChangedError.
	Was *webhook.Endpoint
}

// Empty reports whether c changes nothing.
func (c EndpointChange) Empty() bool {
	return c.URL == nil && c.Events == nil && c.Description == nil && c.Status == nil &&
		c.MaxInFlight == nil && c.RateLimit == nil
}

// conflicts returns the fields that c changes and that somebody else changed since the editor saw them.
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
	if limitConflicts(c.MaxInFlight, now.MaxInFlight, c.Was.MaxInFlight) {
		fields = append(fields, "max_in_flight")
	}
	if limitConflicts(c.RateLimit, now.RateLimit, c.Was.RateLimit) {
		fields = append(fields, "rate_limit")
	}
	if is := deref(now.Description); (c.Description != nil || c.ClearDescription) &&
		is != deref(c.Was.Description) && is != deref(c.Description) {
		fields = append(fields, "description")
	}
	return fields
}

func limitConflicts(changed, now, was *int) bool {
	return changed != nil && deref(now) != deref(was) && deref(now) != *changed
}

// beginsAnew reports whether c makes earlier failures of the registration worthless.
func (c EndpointChange) beginsAnew(now webhook.Endpoint) bool {
	return c.URL != nil && webhook.NormalURL(*c.URL) != webhook.NormalURL(now.URL) ||
		c.Status != nil && *c.Status == webhook.EndpointEnabled && now.Status != webhook.EndpointEnabled
}

// ChangeEndpoint changes a registration and returns it. Pending deliveries use a new URL from their
// next attempt on; it is stored without a fragment. Disabling a registration holds all its pending deliveries. It
// returns checkout.ErrNotFound and *ChangedError. by works as in CreateEndpoint, but ChangeEndpoint fills
// in the detail: the old and new value of each field.
func (s *Webhooks) ChangeEndpoint(
	ctx context.Context, ref checkout.Ref, c EndpointChange, by ...merchant.AuditEntry,
) (webhook.Endpoint, error) {
	if c.URL != nil {
		c.URL = new(webhook.WithoutFragment(*c.URL))
	}
	return pg.InTx(ctx, s.pool, "change webhook registration", func(tx pgx.Tx) (e webhook.Endpoint, err error) {
		now, err := pg.One[webhook.Endpoint](ctx, tx, selectEndpoint+ownEndpoint+` FOR NO KEY UPDATE`,
			ref.MerchantID, ref.Mode, ref.ID)
		if err != nil {
			return e, err
		}
		if fields := c.conflicts(now); len(fields) > 0 {
			return e, &pg.ChangedError{Fields: fields}
		}
		if c.beginsAnew(now) {
			if err := forgetFailure(ctx, tx, ref); err != nil {
				return e, err
			}
		}

		e, err = pg.One[webhook.Endpoint](ctx, tx, `
			WITH w AS (
				UPDATE webhook_endpoint w SET url = coalesce($4, url),
					events = coalesce($5, events), status = coalesce($8, status),
					max_in_flight = nullif(coalesce($9, max_in_flight), 0), rate_limit = nullif(coalesce($10, rate_limit), 0),
					changed_at = clock_timestamp(), description = CASE WHEN $7 THEN NULL ELSE coalesce($6, description) END
				`+ownEndpoint+`
				RETURNING *
			) `+selectEndpointColumns+`FROM w`,
			ref.MerchantID, ref.Mode, ref.ID, c.URL, c.Events, c.Description, c.ClearDescription, c.Status,
			c.MaxInFlight, c.RateLimit)
		if err != nil {
			return e, err
		}
		return e, pg.Audit(ctx, tx, endpointChanged(by, now, e)...)
	})
}

// endpointChanged fills in the detail of the audit entries. It returns none when nothing changed.
// The log shows only the host of a URL, because a path can be a secret.
func endpointChanged(by []merchant.AuditEntry, was, is webhook.Endpoint) []merchant.AuditEntry {
	var detail []string
	note := func(what, was, is string) {
		if was != is {
			detail = append(detail, fmt.Sprintf("%s: %s → %s", what, was, is))
		}
	}
	if was.URL != is.URL && webhook.HostPortOf(was.URL) == webhook.HostPortOf(is.URL) {
		detail = append(detail, "another URL of "+webhook.HostPortOf(is.URL))
	}
	note("URL of", webhook.HostPortOf(was.URL), webhook.HostPortOf(is.URL))
	note("events", fmt.Sprint(was.Events), fmt.Sprint(is.Events))
	note("description", "“"+deref(was.Description)+"”", "“"+deref(is.Description)+"”")
	note("max_in_flight", limitWords(was.MaxInFlight), limitWords(is.MaxInFlight))
	note("rate_limit", limitWords(was.RateLimit), limitWords(is.RateLimit))
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

func limitWords(limit *int) string {
	if limit == nil {
		return "default"
	}
	return strconv.Itoa(*limit)
}

// DeleteEndpoint deletes a registration. Nothing more is sent to it, and Reconcile cancels its pending deliveries. Its
// secret signs nothing more, not even for the webhook_url of a session: see secretEndpoints. Its row stays for the log.
// It returns checkout.ErrNotFound. by works as in CreateEndpoint.
func (s *Webhooks) DeleteEndpoint(ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry) error {
	return pg.RunInTx(ctx, s.pool, "delete webhook registration", func(tx pgx.Tx) error {
		err := pg.Changed(tx.Exec(ctx, `
			UPDATE webhook_endpoint w SET deleted_at = clock_timestamp() `+ownEndpoint,
			ref.MerchantID, ref.Mode, ref.ID))
		if err != nil {
			return err
		}
		if err := forgetFailure(ctx, tx, ref); err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by...)
	})
}

// RotateSecret gives a registration a new secret. The previous secret also signs until overlap is
// over; an older one stops at once. A repeat with the same secret changes nothing. It returns the
// registration with the secret. It returns checkout.ErrNotFound. by works as in CreateEndpoint.
func (s *Webhooks) RotateSecret(
	ctx context.Context, ref checkout.Ref, secret string, overlap time.Duration,
	by ...merchant.AuditEntry,
) (webhook.Endpoint, error) {
	return pg.InTx(ctx, s.pool, "rotate secret", func(tx pgx.Tx) (e webhook.Endpoint, err error) {
		var (
			keyID  string
			sealed []byte
		)
		err = tx.QueryRow(ctx, `
			SELECT master_key_id, sealed_digest
			FROM webhook_endpoint w `+ownEndpoint+` FOR NO KEY UPDATE`, ref.MerchantID, ref.Mode, ref.ID).Scan(&keyID, &sealed)
		if err != nil {
			return e, pg.Found(err)
		}
		current, err := s.keys.Unseal(keyID, ref.ID, sealed)
		if err != nil {
			return e, err
		}
		if subtle.ConstantTimeCompare(current, webhook.SecretDigest(secret)) == 1 {
			by = nil // a repeat changes nothing
			e, err = pg.One[webhook.Endpoint](ctx, tx, selectEndpoint+ownEndpoint, ref.MerchantID, ref.Mode, ref.ID)
		} else {
			keyID, sealed = s.keys.Seal(ref.ID, webhook.SecretDigest(secret))
			e, err = pg.One[webhook.Endpoint](ctx, tx, `
				WITH w AS (
					UPDATE webhook_endpoint w SET previous_master_key_id = master_key_id,
						previous_sealed_digest = sealed_digest,
						previous_expires_at = date_trunc('milliseconds', clock_timestamp()) + $6::interval,
						master_key_id = $4, sealed_digest = $5 `+ownEndpoint+`
					RETURNING *
				) `+selectEndpointColumns+`FROM w`, ref.MerchantID, ref.Mode, ref.ID, keyID, sealed, overlap)
		}
		if err != nil {
			return e, err
		}
		e.Secret = secret
		return e, pg.Audit(ctx, tx, by...)
	})
}

func deref[T any](value *T) (of T) {
	if value == nil {
		return of
	}
	return *value
}
