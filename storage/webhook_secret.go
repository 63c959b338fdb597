package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// WebhookKeys holds the present and the previous digest of one registration's secret, or of the
// secret for the webhook_url of one session.
type WebhookKeys struct {
	EndpointID string
	SessionID  string // not empty: the secret is for this session's webhook_url
	Deleted    bool   // the registration was deleted
	Current    []byte
	Previous   []byte     // nil when never rotated, or when it stopped signing more than ExplainedFor ago
	Until      *time.Time // when Previous stops or stopped signing
}

// ExplainedFor is how long a previous secret can still explain a signature after it stopped
// signing. A merchant that deploys the new secret late has a week to find out.
const ExplainedFor = 7 * 24 * time.Hour

// WebhookKeys returns the digests that sign for the merchant's registrations. It adds the digests that signed the
// deliveries of the event eventID, also of deleted registrations; eventID may be empty. Callers use them to find out
// which secret made a signature. The digests must not leave the process.
func (s *WebhookSecretReader) WebhookKeys(
	ctx context.Context, owner checkout.Owner, eventID string,
) ([]WebhookKeys, error) {
	got, err := pg.CollectBy(ctx, s.pool, s.scanWebhookKeys, `
		SELECT id, coalesce(session_id, ''), deleted_at IS NOT NULL,
			master_key_id, sealed_digest, CASE WHEN recent THEN previous_master_key_id END,
				CASE WHEN recent THEN previous_sealed_digest END, previous_expires_at
		FROM webhook_endpoint, LATERAL (
			SELECT previous_expires_at > clock_timestamp() - $4::interval AS recent) AS previous
		WHERE merchant_id = $1 AND mode = $2 AND (session_id IS NULL AND deleted_at IS NULL
			OR id IN (SELECT d.endpoint_id FROM webhook_delivery d WHERE d.event_id = $3 AND d.merchant_id = $1 AND d.mode = $2)
			OR id IN (SELECT s.signing_endpoint_id FROM checkout_session s
				JOIN event e ON e.session_id = s.id
				WHERE e.id = $3 AND s.merchant_id = $1 AND s.mode = $2))
		ORDER BY deleted_at IS NOT NULL, id`, owner.MerchantID, owner.Mode, eventID, ExplainedFor)
	return got, pg.Wrap("webhook keys", err)
}

func (s *WebhookSecretReader) scanWebhookKeys(row pgx.CollectableRow) (WebhookKeys, error) {
	var (
		k  WebhookKeys
		by = webhookSecret{SecretOf: &k.EndpointID}
	)
	if err := row.Scan(&k.EndpointID, &k.SessionID, &k.Deleted, &by.KeyID, &by.Sealed,
		&by.PreviousKeyID, &by.Previous, &k.Until); err != nil {
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

// SigningEndpoint returns the id of the registration whose secret signs the events of a session with the webhook_url
// url. It prefers the oldest enabled registration for this address, then the oldest enabled one. It returns "" when
// the merchant has no enabled registration in this mode. One that the service put on hold counts as enabled: see
// backsSession. Source: api/decisions/signatures.md, "which secret signs".
func (s *WebhookReader) SigningEndpoint(ctx context.Context, owner checkout.Owner, url string) (string, error) {
	type registration struct{ ID, URL string }
	candidates, err := pg.Collect[registration](ctx, s.pool, `
		SELECT id, url FROM webhook_endpoint r
		WHERE merchant_id = $1 AND mode = $2 AND session_id IS NULL AND deleted_at IS NULL AND `+backsSession+`
		ORDER BY created_at, id`, owner.MerchantID, owner.Mode)
	if err != nil || len(candidates) == 0 {
		return "", pg.Wrap("signing registration", err)
	}
	return signer(candidates, url, func(r registration) string { return r.URL }).ID, nil
}

// signer returns the first of the candidates whose address is that of a session, in any spelling, else the first. There
// is at least one. SQL could not compare the spellings, and a merchant has webhook.MaxEndpoints candidates at most.
func signer[T any](candidates []T, address string, addressOf func(T) string) T {
	address = webhook.NormalURL(address)
	same := func(c T) bool { return webhook.NormalURL(addressOf(c)) == address }
	return candidates[max(0, slices.IndexFunc(candidates, same))]
}

// webhookSecret is the sealed secret that signs. It is that of the endpoint SecretOf; nil means that
// the session has no secret yet.
type webhookSecret struct {
	SecretOf, KeyID, PreviousKeyID *string // PreviousKeyID is nil when no rotation is under way
	Sealed, Previous               []byte
}

// secretEndpoints selects the ids of the endpoints whose secrets may sign the delivery d of the event e. This
// is the delivery's endpoint w. If w is deleted and the delivery goes to a session's own address,
// they are the registrations that may sign for a new session; see signer. If no registration is enabled, it is
// the session's own secret, which may not exist yet.
//
// Each attempt selects anew, because an event may be published before the deletion and sent hours after it. Source:
// api/decisions/signatures.md, "which secret signs".
const secretEndpoints = `
	CASE WHEN NOT d.session_url OR w.deleted_at IS NULL THEN ARRAY[w.id] ELSE coalesce(
		nullif(ARRAY(SELECT r.id FROM webhook_endpoint r
			WHERE r.merchant_id = d.merchant_id AND r.mode = d.mode AND r.session_id IS NULL AND r.deleted_at IS NULL
				AND ` + backsSession + `), '{}'),
		ARRAY['` + checkout.PrefixEndpoint + `' || substr(e.session_id, length('` + checkout.PrefixSession + `') + 1)])
	END`

// insertUntoldSecret makes a secret for the session of a delivery. The merchant never sees this secret, so its endpoint
// is marked deleted from the start, and it signs only until an enabled registration can.
func (s *Webhooks) insertUntoldSecret(
	ctx context.Context, conn *pgxpool.Conn, ref checkout.Ref, d lockedDelivery,
) (is webhookSecret, err error) {
	if d.SessionID == nil {
		return is, errors.New("an event of no session goes to a session's own address")
	}
	id := checkout.Session{Ref: checkout.Ref{ID: *d.SessionID}}.OwnEndpoint()
	keyID, sealed := s.keys.Seal(id, webhook.SecretDigest(webhook.NewSecret()))
	err = conn.QueryRow(ctx, `
		INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, status, session_id,
			master_key_id, sealed_digest, created_at, deleted_at)
		VALUES ($1, $2, $3, $4, $5, 'enabled', $6, $7, $8, clock_timestamp(), clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET url = webhook_endpoint.url -- another delivery inserted it first
		RETURNING id, master_key_id, sealed_digest`,
		id, ref.MerchantID, ref.Mode, d.URL, webhook.EventTypes, d.SessionID, keyID, sealed,
	).Scan(&is.SecretOf, &is.KeyID, &is.Sealed)
	return is, err
}

// unsealDigests returns the digest of the secret. During a rotation, the digest of the previous secret follows.
func (s *WebhookSecretReader) unsealDigests(by webhookSecret) ([][]byte, error) {
	digest, err := s.keys.Unseal(*by.KeyID, *by.SecretOf, by.Sealed)
	if err != nil || by.PreviousKeyID == nil {
		return [][]byte{digest}, err
	}
	old, err := s.keys.Unseal(*by.PreviousKeyID, *by.SecretOf, by.Previous)
	return [][]byte{digest, old}, err
}
