-- +goose Up
-- The schema of version 1.0.0. Every row belongs to one merchant and one mode, and every query says which.

-- +goose StatementBegin
DO $$ BEGIN
    IF EXISTS (SELECT FROM goose_db_version WHERE version_id BETWEEN 1 AND 109) THEN
        RAISE EXCEPTION 'a build before 1.0.0 made this database: give the service an empty one, or a local stack --fresh';
    END IF;
END $$;
-- +goose StatementEnd

-- The cell that this installation is: two characters in its ids and keys. A cell is a whole installation with some of
-- the merchants.
CREATE TABLE installation (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    cell     text NOT NULL CHECK (cell ~ '^[0-9a-hjkmnp-tv-z]{2}$'),
    -- Another cluster counts its transactions anew, as after the restore of a dump: that begins an era. It is also the
    -- default of event.feed_era.
    feed_era integer NOT NULL DEFAULT 0
);
INSERT INTO installation (cell) VALUES ('00');

-- The encryption keys that sealed something here; check_value proves that the
-- process holds the right key before it signs with what the key unseals.
CREATE TABLE master_key (
    id          text PRIMARY KEY,
    check_value bytea NOT NULL,
    retired_at  timestamptz
);

CREATE TABLE merchant (
    id               text PRIMARY KEY,
    name             text NOT NULL,
    plan             text NOT NULL,
    fee_basis_points bigint NOT NULL CONSTRAINT merchant_fee_check CHECK (fee_basis_points BETWEEN 0 AND 10000),
    payment_attempts integer NOT NULL CHECK (payment_attempts BETWEEN 1 AND 10),
    order_id_guard   boolean NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    brand_color      text CHECK (brand_color ~ '^#[0-9a-f]{6}$'), -- null: the page's own
    -- A PNG that storage.EncodeLogo made; null: none.
    logo             bytea CHECK (octet_length(logo) <= 131072 AND substring(logo FROM 1 FOR 8) = '\x89504e470d0a1a0a'),
    -- Stored, so that a page view need not read the picture to know its URL.
    logo_version     text GENERATED ALWAYS AS (left(encode(sha256(logo), 'hex'), 16)) STORED,
    fee_fixed        bigint NOT NULL DEFAULT 0 CHECK (fee_fixed BETWEEN 0 AND 10000), -- minor units
    support          text, -- an e-mail address or a URL
    terms_url        text,
    privacy_url      text,
    receipts         boolean NOT NULL DEFAULT false -- customers get one by e-mail
);

CREATE TABLE payout_address (
    merchant_id  text NOT NULL REFERENCES merchant,
    mode         text NOT NULL CHECK (mode IN ('test', 'live')),
    currency     text NOT NULL,
    network      text NOT NULL,
    address      text NOT NULL,
    -- The change of a payout address that is announced. An empty next_address removes the address. The change
    -- holds from next_at on, also before somebody has moved it to the columns beside.
    next_network text,
    next_address text,
    next_at      timestamptz,
    next_by      text, -- the e-mail address of the owner
    PRIMARY KEY (merchant_id, mode, currency)
);
CREATE VIEW current_payout_address AS
    SELECT merchant_id, mode, currency,
           CASE WHEN next_at <= clock_timestamp() THEN next_network ELSE network END AS network,
           CASE WHEN next_at <= clock_timestamp() THEN next_address ELSE address END AS address
    FROM payout_address WHERE next_at IS NULL OR next_at > clock_timestamp() OR next_address <> '';

CREATE TABLE api_key (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text NOT NULL CHECK (mode IN ('test', 'live')),
    label       text NOT NULL,
    hash        bytea NOT NULL UNIQUE, -- SHA-256 of the key; the key itself is nowhere
    last4       text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    revoked_at  timestamptz,
    scopes      text[] NOT NULL
);
CREATE INDEX api_key_merchant ON api_key (merchant_id, mode, id);

-- The requests to the REST API with a valid key. They are written in batches after the answers; nothing else
-- depends on a row, so none refers to another table.
CREATE TABLE api_request (
    id          text NOT NULL, -- of the row: callers choose request ids
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    request_id  text NOT NULL,
    key_id      text NOT NULL,
    method      text NOT NULL,
    route       text NOT NULL, -- the template, such as /v1/checkout/{id}
    status      smallint NOT NULL,
    error       text NOT NULL, -- code of the answer, '' without an error
    duration_ms integer NOT NULL,
    created_at  timestamptz NOT NULL, -- when the request came
    session_id  text NOT NULL DEFAULT '', -- that the answer was about, '' for none
    PRIMARY KEY (merchant_id, mode, id)
);
CREATE INDEX api_request_request ON api_request (merchant_id, mode, request_id);
CREATE INDEX api_request_key ON api_request (merchant_id, mode, key_id, id);
CREATE INDEX api_request_refused ON api_request (merchant_id, mode, id) WHERE status >= 400;
CREATE INDEX api_request_age ON api_request (created_at);

-- Token buckets of keys, and of IP addresses that send requests without a valid key. The table is
-- unlogged: its writes do not wait for the disk, and a crash empties it. Then full buckets return,
-- which harms nobody.
CREATE UNLOGGED TABLE token_bucket (
    owner   text NOT NULL,
    kind    text NOT NULL,
    rate    double precision NOT NULL, -- tokens a second
    burst   integer NOT NULL, -- tokens of a full bucket
    tokens  double precision NOT NULL,
    allowed boolean NOT NULL, -- what the last request was told
    at      timestamptz NOT NULL,
    PRIMARY KEY (owner, kind)
) WITH (fillfactor = 50); -- room for the next version beside the last one

CREATE TABLE idempotent_request (
    merchant_id   text NOT NULL REFERENCES merchant,
    mode          text NOT NULL,
    route         text NOT NULL, -- method and path
    key           text NOT NULL,
    fingerprint   bytea NOT NULL, -- SHA-256 of the body
    seed          bytea NOT NULL, -- sealed; a repeat after a crash makes the same ids and secrets from it
    master_key_id text NOT NULL REFERENCES master_key,
    locked_until  timestamptz, -- a process works on it; null: it ended without a stored answer
    status        integer, -- of the answer; null: none yet
    answer        bytea, -- sealed, because it may have a secret: its location, a line break, its body
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, mode, route, key)
);
CREATE INDEX idempotent_request_age ON idempotent_request (created_at);
CREATE INDEX idempotent_request_master_key ON idempotent_request (master_key_id);

-- People who sign in to the dashboard of one merchant.
CREATE TABLE member (
    id                    text PRIMARY KEY,
    merchant_id           text NOT NULL REFERENCES merchant,
    email                 text NOT NULL,
    role                  text NOT NULL CHECK (role IN ('owner', 'developer', 'viewer')),
    password_hash         text, -- argon2id; null until the invitation is accepted
    invitation_hash       bytea UNIQUE, -- SHA-256 of the token in the link
    invitation_expires_at timestamptz,
    created_at            timestamptz NOT NULL DEFAULT now(),
    signed_in_at          timestamptz,
    removed_at            timestamptz,
    joined_at             timestamptz, -- when the first password was chosen
    CONSTRAINT member_invitation_check CHECK ((invitation_hash IS NULL) = (invitation_expires_at IS NULL))
);
CREATE INDEX member_merchant ON member (merchant_id, id);
-- An address is one person's with one merchant; another merchant's people have
-- nothing to do with it.
CREATE UNIQUE INDEX member_merchant_email_key ON member (merchant_id, lower(email)) WHERE removed_at IS NULL;
CREATE INDEX member_email ON member (lower(email)) WHERE removed_at IS NULL AND password_hash IS NOT NULL;

-- Signed-in browsers. The token is in the browser's cookie only.
CREATE TABLE member_session (
    hash       bytea PRIMARY KEY, -- SHA-256 of the token
    member_id  text NOT NULL REFERENCES member,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX member_session_member ON member_session (member_id);

-- Secrets that a browser is about to be shown, once. A form that makes one has a
-- token: sent again, it finds here what it made.
CREATE TABLE reveal (
    session_hash  bytea NOT NULL REFERENCES member_session ON DELETE CASCADE, -- the browser that may see it
    form          text NOT NULL, -- the form's token
    merchant_id   text NOT NULL,
    mode          text NOT NULL,
    subject       text NOT NULL, -- the id of what the secret is of
    master_key_id text,
    sealed        bytea, -- AES-256-GCM of the secret, bound to subject; null once it was shown
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT reveal_sealed_check CHECK ((master_key_id IS NULL) = (sealed IS NULL)),
    PRIMARY KEY (session_hash, form)
);
CREATE INDEX reveal_unseen ON reveal (created_at) WHERE sealed IS NOT NULL;

-- The codes with which a person who lost the password may choose another one. The use of one ends the others.
CREATE TABLE password_reset (
    hash       bytea PRIMARY KEY, -- SHA-256
    member_id  text NOT NULL REFERENCES member,
    expires_at timestamptz NOT NULL
);
CREATE INDEX password_reset_member ON password_reset (member_id);

-- The second factor of a person who signs in to the dashboard: a secret from which an app makes codes.
CREATE TABLE second_factor (
    member_id     text PRIMARY KEY REFERENCES member,
    master_key_id text NOT NULL REFERENCES master_key,
    sealed        bytea NOT NULL, -- the secret
    confirmed_at  timestamptz, -- null until the person has typed a first code
    last_step     bigint NOT NULL DEFAULT 0, -- codes of this time step and of earlier ones are refused
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX second_factor_master_key ON second_factor (master_key_id);

-- Codes that replace the app once each.
CREATE TABLE recovery_code (
    member_id text NOT NULL REFERENCES member,
    hash      bytea NOT NULL, -- SHA-256
    PRIMARY KEY (member_id, hash)
);

-- The random name of a person towards passkeys. It is no e-mail address and no id that others know.
CREATE TABLE passkey_handle (
    member_id text PRIMARY KEY REFERENCES member,
    handle    bytea NOT NULL UNIQUE
);

-- A passkey: the public key with which a person's device or key fob proves who signs in.
CREATE TABLE passkey (
    id            text PRIMARY KEY,
    member_id     text NOT NULL REFERENCES member,
    credential_id bytea NOT NULL UNIQUE,
    name          text NOT NULL,
    credential    bytea NOT NULL, -- JSON: the public key, how often it was used, its flags
    created_at    timestamptz NOT NULL DEFAULT now(),
    used_at       timestamptz
);
CREATE INDEX passkey_member ON passkey (member_id);

-- What a passkey has to sign. It is good once, for a few minutes, in one browser and for one purpose.
CREATE TABLE passkey_challenge (
    hash       bytea PRIMARY KEY, -- SHA-256 of the challenge
    browser    bytea NOT NULL, -- SHA-256 of the browser's cookie
    purpose    text NOT NULL,
    session    bytea NOT NULL, -- JSON: what the answer must agree with
    expires_at timestamptz NOT NULL
);
CREATE INDEX passkey_challenge_age ON passkey_challenge (expires_at);

-- Mails to people who sign in to the dashboard. A row has no text: the worker writes the text when it sends.
CREATE TABLE mail (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    member_id  text REFERENCES member, -- null: the address is unknown, and nothing is sent
    kind       text NOT NULL,
    detail     text NOT NULL DEFAULT '', -- in words, without secrets
    created_at timestamptz NOT NULL DEFAULT now(),
    next_at    timestamptz, -- of the next attempt; null when it was sent or given up
    attempts   integer NOT NULL DEFAULT 0,
    sent_at    timestamptz,
    session_id text, -- of a receipt, whose detail is the language; no foreign key: the session may be deleted first
    page       text NOT NULL DEFAULT '' -- of the dashboard, such as test/webhooks/we_…; '' when its kind has one page
);
CREATE INDEX mail_due ON mail (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX mail_member ON mail (member_id, created_at);
CREATE INDEX mail_age ON mail (created_at);
CREATE UNIQUE INDEX mail_receipt ON mail (session_id) WHERE session_id IS NOT NULL;
-- Mails to people who sign in come before receipts, of which there may be many.
CREATE INDEX mail_turn ON mail ((session_id IS NOT NULL), next_at) WHERE next_at IS NOT NULL;

-- Who changed what. Rows are only ever added.
CREATE TABLE audit_entry (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text CHECK (mode IN ('test', 'live')), -- null: both
    actor       text NOT NULL, -- the member's e-mail as it was then
    action      text NOT NULL,
    subject     text NOT NULL, -- the id of what was changed
    detail      text NOT NULL, -- in words, without secrets
    created_at  timestamptz NOT NULL DEFAULT now(),
    address     text NOT NULL DEFAULT '' -- from where: an IP address, '' for a command
);
CREATE INDEX audit_entry_merchant ON audit_entry (merchant_id, id);

CREATE TABLE webhook_endpoint (
    id                     text PRIMARY KEY,
    merchant_id            text NOT NULL REFERENCES merchant,
    mode                   text NOT NULL CHECK (mode IN ('test', 'live')),
    url                    text NOT NULL,
    events                 text[] NOT NULL,
    description            text,
    status                 text NOT NULL CHECK (status IN ('enabled', 'disabled')),
    session_id             text, -- set: not a registration, but the secret of one session's webhook_url
    master_key_id          text NOT NULL REFERENCES master_key,
    sealed_digest          bytea NOT NULL, -- AES-256-GCM of SHA-256(secret), bound to id
    created_at             timestamptz NOT NULL,
    deleted_at             timestamptz,
    -- The secret before a rotation signs beside the present one until previous_expires_at.
    previous_master_key_id text REFERENCES master_key,
    previous_sealed_digest bytea,
    previous_expires_at    timestamptz,
    -- The time of a registration's last change. A check of the log can tell which events the registration
    -- should have got, and where its attempts should have gone, from this time on.
    changed_at             timestamptz
);
CREATE INDEX webhook_endpoint_merchant ON webhook_endpoint (merchant_id, mode, created_at)
    WHERE deleted_at IS NULL AND session_id IS NULL;
-- What a key has sealed.
CREATE INDEX webhook_endpoint_master_key ON webhook_endpoint (master_key_id);
CREATE INDEX webhook_endpoint_previous_master_key ON webhook_endpoint (previous_master_key_id)
    WHERE previous_master_key_id IS NOT NULL;
CREATE INDEX webhook_endpoint_session ON webhook_endpoint (session_id) WHERE session_id IS NOT NULL;

-- Registrations whose first attempts all failed since a time. A first attempt that arrives removes the row, so a
-- healthy registration has none, and its deliveries write nothing here.
CREATE TABLE webhook_endpoint_failure (
    endpoint_id text PRIMARY KEY REFERENCES webhook_endpoint,
    since       timestamptz NOT NULL, -- end of the first of these first attempts
    last_at     timestamptz NOT NULL, -- end of the last attempt that failed, to within some seconds
    arrived_at  timestamptz, -- end of the last later attempt that arrived, to within some seconds
    marked_at   timestamptz, -- the registration shows that it fails, and people have a mail
    held_at     timestamptz -- the service has put the registration on hold
);

CREATE TABLE checkout_session (
    id                  text PRIMARY KEY,
    merchant_id         text NOT NULL REFERENCES merchant,
    mode                text NOT NULL CHECK (mode IN ('test', 'live')),
    amount              bigint NOT NULL CHECK (amount > 0),
    currency            text NOT NULL,
    payout_currency     text NOT NULL,
    status              text NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'expired')),
    metadata            json NOT NULL, -- json, not jsonb: the merchant gets its bytes back
    customer_email      text,
    redirect_url        text,
    webhook_url         text,
    signing_endpoint_id text REFERENCES webhook_endpoint,
    order_id            text,
    max_attempts        integer NOT NULL,
    attempts            integer NOT NULL DEFAULT 0,
    payment_in_flight   boolean NOT NULL DEFAULT false,
    created_at          timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL,
    ended_at            timestamptz,
    cancel_url          text,
    description         text,
    locale              text,
    line_items          json, -- a list of name, quantity, unit_amount; null: none
    CONSTRAINT checkout_session_ended_check CHECK ((status = 'pending') = (ended_at IS NULL)),
    CONSTRAINT checkout_session_in_flight_check CHECK (status = 'pending' OR NOT payment_in_flight)
);
CREATE UNIQUE INDEX checkout_session_order_id_key ON checkout_session (merchant_id, mode, order_id)
    WHERE order_id IS NOT NULL AND status IN ('pending', 'completed');
CREATE INDEX checkout_session_merchant ON checkout_session (merchant_id, mode, id);
CREATE INDEX checkout_session_overdue ON checkout_session (expires_at) WHERE status = 'pending';
-- Lists, newest first. Most sessions expire, so the index for the other statuses stays small.
CREATE INDEX checkout_session_unusual ON checkout_session (merchant_id, mode, status, id) WHERE status <> 'expired';
-- Sessions that may be removed, as a completed one of live mode never is; and what the foreign keys look at.
CREATE INDEX checkout_session_removable ON checkout_session (id)
    WHERE status <> 'pending' AND (mode = 'test' OR status <> 'completed');
CREATE INDEX checkout_session_signing_endpoint ON checkout_session (signing_endpoint_id)
    WHERE signing_endpoint_id IS NOT NULL;
-- The beginning of an order id or of an e-mail address, in any collation, or the whole of it.
CREATE INDEX checkout_session_order_prefix ON checkout_session
    (merchant_id, mode, (metadata->>'order_id') text_pattern_ops, id)
    WHERE metadata->>'order_id' IS NOT NULL;
CREATE INDEX checkout_session_email_prefix ON checkout_session
    (merchant_id, mode, lower(customer_email) text_pattern_ops, id)
    WHERE customer_email IS NOT NULL;

-- Pictures of line items. A worker fetches each once a day at most; the hosted page serves the copy.
CREATE TABLE picture (
    id           text PRIMARY KEY, -- also the id of the run that fetches it; a new fetch has a new id
    merchant_id  text NOT NULL REFERENCES merchant,
    mode         text NOT NULL CHECK (mode IN ('test', 'live')),
    url          text NOT NULL, -- may hold a token
    url_digest   bytea NOT NULL CHECK (octet_length(url_digest) = 32), -- SHA-256 of url
    status       text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'ready', 'failed')),
    tries        smallint NOT NULL DEFAULT 0,
    failure      text, -- why it failed
    content_type text CHECK (content_type IN ('image/jpeg', 'image/png')),
    content      bytea CHECK (octet_length(content) <= 262144),
    width        smallint,
    height       smallint,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(), -- of this fetch
    fetched_at   timestamptz, -- the end of the fetch
    last_used_at timestamptz NOT NULL DEFAULT clock_timestamp(), -- by a new session, to the hour
    CONSTRAINT picture_result_check CHECK (
        (status = 'ready') = (num_nonnulls(content_type, content, width, height) = 4)
        AND (status = 'failed') = (failure IS NOT NULL) AND (status = 'pending') = (fetched_at IS NULL)),
    CONSTRAINT picture_url_key UNIQUE (merchant_id, mode, url_digest)
);
CREATE INDEX picture_pending ON picture (merchant_id, mode) WHERE status = 'pending';
CREATE INDEX picture_last_used ON picture (last_used_at);

CREATE TABLE transaction (
    id                 text PRIMARY KEY,
    session_id         text NOT NULL REFERENCES checkout_session,
    merchant_id        text NOT NULL,
    mode               text NOT NULL,
    status             text NOT NULL CHECK (status IN ('created', 'processing', 'succeeded', 'failed')),
    outcome            text, -- what the card network said last; decides nothing until status follows
    attempt            integer, -- set once the workflow has accepted the payment
    fee                bigint NOT NULL DEFAULT 0,
    net                bigint NOT NULL DEFAULT 0,
    exchange_rate      text NOT NULL DEFAULT '',
    customer_email     text,
    card_token         text, -- the card network's, useless elsewhere; removed once decided
    payment_method     json NOT NULL,
    failure            text NOT NULL DEFAULT '',
    action_url         text,
    attempts_remaining integer NOT NULL DEFAULT 0,
    session_status     text NOT NULL DEFAULT 'pending',
    created_at         timestamptz NOT NULL,
    completed_at       timestamptz,
    -- A charge has a name at the card network before it can move money, and each confirmation is noted
    -- before it is sent.
    acquirer_ref       text, -- the card network's name of the charge; the first one stays
    confirms           integer NOT NULL DEFAULT 0, -- confirmations that were sent, or were about to be
    rate_at            timestamptz,
    rate_sources       json, -- the price of each source; null in test mode
    -- The merchant's plan when the payment was decided.
    plan               text,
    fee_basis_points   bigint,
    fee_fixed          bigint,
    -- What a charge cost, as the card network has booked it; null before that, and in test mode.
    settled_currency   text, -- in which the card network settles
    settled            bigint, -- the charge in that currency, before the cost
    cost               bigint, -- in that currency
    -- A payment keeps its card network, and the chain of its payout, when a setting changes.
    acquirer           text NOT NULL CHECK (acquirer IN ('sandbox', 'stripe')),
    chain_ref          text NOT NULL CHECK (chain_ref <> ''), -- CAIP-2, such as eip155:1, or sandbox
    available_at       timestamptz,
    language           text, -- of the page on which the customer paid
    -- Until when the rate of a payment is locked for its payout; null: forever, as in the sandbox.
    rate_until         timestamptz,
    CONSTRAINT transaction_session_attempt_key UNIQUE (session_id, attempt)
);
-- At most one payment of a session is in flight, and at most one ever succeeds.
CREATE UNIQUE INDEX transaction_in_flight_key ON transaction (session_id) WHERE status = 'processing';
CREATE UNIQUE INDEX transaction_succeeded_key ON transaction (session_id) WHERE status = 'succeeded';
CREATE INDEX transaction_session ON transaction (session_id, id);
CREATE UNIQUE INDEX transaction_acquirer_ref_key ON transaction (mode, acquirer_ref) WHERE acquirer_ref IS NOT NULL;
CREATE INDEX transaction_unsettled ON transaction (id)
    WHERE mode = 'live' AND status = 'succeeded' AND settled IS NULL;
-- The report of a day.
CREATE INDEX transaction_day ON transaction (completed_at) WHERE mode = 'live' AND status = 'succeeded';
-- The charges of a merchant whose money is not available yet.
CREATE INDEX transaction_unavailable ON transaction (merchant_id, mode, coalesce(available_at, 'infinity'))
    WHERE status = 'succeeded' AND acquirer <> 'sandbox';
-- The charges that the card network must be asked about.
CREATE INDEX transaction_unbooked ON transaction (mode, acquirer_ref)
    WHERE status = 'succeeded' AND available_at IS NULL AND acquirer <> 'sandbox';
-- The list of a merchant's transactions.
CREATE INDEX transaction_merchant ON transaction (merchant_id, mode, id);
CREATE INDEX transaction_email_prefix ON transaction
    (merchant_id, mode, lower(customer_email) text_pattern_ops, session_id)
    WHERE customer_email IS NOT NULL;
CREATE INDEX transaction_last4 ON transaction (merchant_id, mode, (payment_method->>'last4'), session_id)
    WHERE payment_method->>'last4' IS NOT NULL;
-- Payments that have not begun. Retention removes the card's token when they cannot begin any more.
CREATE INDEX transaction_untried ON transaction (id) WHERE status = 'created' AND card_token IS NOT NULL;

CREATE TABLE payout (
    id               text PRIMARY KEY,
    session_id       text NOT NULL UNIQUE REFERENCES checkout_session,
    transaction_id   text NOT NULL REFERENCES transaction,
    merchant_id      text NOT NULL,
    mode             text NOT NULL,
    status           text NOT NULL CHECK (status IN ('pending', 'sent', 'failed')),
    amount           text NOT NULL DEFAULT '',
    currency         text NOT NULL,
    network          text NOT NULL,
    destination      text NOT NULL,
    source_amount    bigint NOT NULL,
    source_currency  text NOT NULL,
    exchange_rate    text NOT NULL,
    fee              text NOT NULL DEFAULT '',
    tx_hash          text NOT NULL DEFAULT '',
    failure          text NOT NULL DEFAULT '',
    signed_transfer  bytea, -- stored before it is sent, so that a repeat sends the same bytes
    created_at       timestamptz NOT NULL,
    sent_at          timestamptz,
    failed_at        timestamptz,
    generation       integer NOT NULL DEFAULT 1, -- a retry of a failed payout adds one
    hold             text NOT NULL DEFAULT '', -- why a pending payout is not sent
    held_at          timestamptz, -- since when, in this generation
    next_action_at   timestamptz, -- when a payout on hold is tried again
    confirmed_at     timestamptz, -- when its transfer was final on the chain
    -- When an operator took the risk of a payout. A later change of the risk holds the payout again.
    risk_released_at timestamptz,
    -- The generations of a payout that failed and were retried, oldest first. A session's timeline shows them.
    retried          jsonb NOT NULL DEFAULT '[]',
    -- When an operator let a payout pass that is above the largest payout of the treasury.
    size_released_at timestamptz
);
CREATE INDEX payout_pending ON payout (created_at) WHERE status = 'pending';
CREATE INDEX payout_merchant ON payout (merchant_id, mode, id);
-- Reconcile looks for pending payouts that are due.
CREATE INDEX payout_due ON payout (coalesce(next_action_at, created_at)) WHERE status = 'pending';
CREATE INDEX payout_day ON payout (created_at) WHERE mode = 'live';
CREATE INDEX payout_transaction ON payout (transaction_id);
-- Payouts that were not sent: few among many, and looked for by name.
CREATE INDEX payout_unusual ON payout (merchant_id, mode, status, id) WHERE status <> 'sent';

CREATE TABLE event (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    type        text NOT NULL,
    subject_id  text NOT NULL,
    session_id  text,
    created_at  timestamptz NOT NULL,
    body        bytea NOT NULL, -- the exact bytes that every delivery sends
    generation  integer NOT NULL DEFAULT 1, -- payout.sent may follow payout.failed, in the next generation
    -- The order of the feed of events: the transaction that stored an event, then its id. The feed withholds what is
    -- not older than every open transaction, so it never shows an event before one that it has shown.
    feed_era    integer NOT NULL DEFAULT 0, -- see installation
    commit_xid  xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT event_subject_type_key UNIQUE (subject_id, type, generation)
);
CREATE INDEX event_merchant ON event (merchant_id, mode, id);
CREATE INDEX event_session ON event (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX event_feed ON event (merchant_id, mode, feed_era, commit_xid, id);

CREATE TABLE webhook_delivery (
    id              text PRIMARY KEY,
    event_id        text NOT NULL REFERENCES event,
    merchant_id     text NOT NULL,
    mode            text NOT NULL,
    endpoint_id     text NOT NULL REFERENCES webhook_endpoint, -- whose secret signs
    url             text NOT NULL,
    status          text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'canceled')),
    run             integer NOT NULL DEFAULT 0, -- 1 once the first run has begun; replays add one
    run_id          text, -- Temporal's id of that run
    next_attempt_at timestamptz,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    session_url     boolean NOT NULL DEFAULT false, -- url is a session's own, not the registration's
    held            boolean NOT NULL DEFAULT false,
    parked_at       timestamptz, -- it came due while on hold; its run waits for the signal resume
    sending_until   timestamptz, -- an attempt is under way, or its worker died
    hurried_at      timestamptz, -- retry_now was asked for last
    -- A delivery's row alone says what the next try of its activity does.
    attempts        integer NOT NULL DEFAULT 0, -- noted in the last run
    counted         integer NOT NULL DEFAULT 0, -- of these, those that Temporal's retry policy has counted
    CONSTRAINT webhook_delivery_event_endpoint_key UNIQUE (event_id, endpoint_id)
);
-- next_attempt_at of a pending delivery is the time by which its run should act. During an attempt it
-- is the time of the next attempt if the worker dies. When a delivery is overdue, Reconcile asks
-- Temporal whether its run still exists.
CREATE INDEX webhook_delivery_overdue ON webhook_delivery (next_attempt_at)
    WHERE status = 'pending' AND parked_at IS NULL;
CREATE INDEX webhook_delivery_parked ON webhook_delivery (id) WHERE parked_at IS NOT NULL;
-- Lists, newest first. Nearly all deliveries are delivered, so the index for the other statuses stays
-- small.
CREATE INDEX webhook_delivery_merchant ON webhook_delivery (merchant_id, mode, id);
CREATE INDEX webhook_delivery_endpoint ON webhook_delivery (endpoint_id, id);
CREATE INDEX webhook_delivery_unusual ON webhook_delivery (merchant_id, mode, status, id) WHERE status <> 'delivered';

CREATE TABLE webhook_attempt (
    delivery_id   text NOT NULL REFERENCES webhook_delivery,
    run           integer NOT NULL,
    number        integer NOT NULL,
    started_at    timestamptz NOT NULL,
    duration_ms   integer, -- null: not finished, or its worker died
    status_code   integer,
    error_kind    text,
    response_body bytea,
    scheduled_at  timestamptz,
    PRIMARY KEY (delivery_id, run, number)
);

CREATE TABLE webhook_replay (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text NOT NULL CHECK (mode IN ('test', 'live')),
    endpoint_id text NOT NULL REFERENCES webhook_endpoint,
    since       timestamptz NOT NULL,
    until       timestamptz NOT NULL,
    filter      text NOT NULL CHECK (filter IN ('delivered', 'failed', 'canceled')),
    rate        integer NOT NULL CHECK (rate > 0), -- deliveries a second
    status      text NOT NULL CHECK (status IN ('running', 'completed', 'canceled')),
    total       integer NOT NULL, -- counted when it was created
    after       text NOT NULL DEFAULT '', -- the last delivery that was started
    started     integer NOT NULL DEFAULT 0, -- runs started so far
    skipped     integer NOT NULL DEFAULT 0, -- that were in progress when their turn came
    created_at  timestamptz NOT NULL,
    finished_at timestamptz,
    CONSTRAINT webhook_replay_finished_check CHECK ((status = 'running') = (finished_at IS NULL))
);
CREATE INDEX webhook_replay_merchant ON webhook_replay (merchant_id, mode, id);
CREATE INDEX webhook_replay_running ON webhook_replay (created_at) WHERE status = 'running';
CREATE INDEX webhook_replay_endpoint ON webhook_replay (endpoint_id);

-- What the card network reported. A report is a hint to look; the network's own state decides.
CREATE TABLE acquirer_event (
    id          text PRIMARY KEY,
    mode        text NOT NULL,
    type        text NOT NULL,
    object_id   text NOT NULL,
    reference   text NOT NULL, -- acquirer_ref of the charge; "" when the report is about something else
    created_at  timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    unseen      boolean NOT NULL DEFAULT false -- the card network must still be asked about the charge
);
CREATE INDEX acquirer_event_reference ON acquirer_event (mode, reference) WHERE reference <> '';
CREATE INDEX acquirer_event_day ON acquirer_event (mode, received_at);
CREATE INDEX acquirer_event_unseen ON acquirer_event (mode, reference) WHERE unseen;

-- Up to where the card network's list of reports was read.
CREATE TABLE acquirer_cursor (
    mode       text PRIMARY KEY,
    event_id   text NOT NULL,
    created_at timestamptz NOT NULL -- of that report
);

-- How far the charges and the movements of the card network are compared, by mode: for good, and in the present round.
CREATE TABLE acquirer_comparison (
    mode        text PRIMARY KEY,
    compared_to timestamptz NOT NULL,
    read_to     timestamptz NOT NULL
);

-- Something at the card network that puts the payout of a charge at risk. It belongs to a payment, so its
-- queries name the transaction.
CREATE TABLE charge_risk (
    id             text PRIMARY KEY, -- the card network's id
    mode           text NOT NULL,
    merchant_id    text NOT NULL,
    transaction_id text NOT NULL REFERENCES transaction,
    kind           text NOT NULL CHECK (kind IN ('dispute', 'fraud_warning', 'refund')),
    status         text NOT NULL CHECK (status IN ('inquiry', 'open', 'won', 'lost')),
    amount         bigint NOT NULL, -- minor units
    currency       text NOT NULL,
    changes        integer NOT NULL DEFAULT 1, -- the generation of its ledger entries
    noted_at       timestamptz NOT NULL,
    changed_at     timestamptz NOT NULL
);
CREATE INDEX charge_risk_transaction ON charge_risk (transaction_id);
CREATE INDEX charge_risk_undecided ON charge_risk (mode, id)
    WHERE status = 'open' OR status = 'inquiry' AND kind = 'dispute';

-- Money that goes back to a card: what is left of a charge. A charge may have another refund when the first has failed.
CREATE TABLE refund (
    id             text PRIMARY KEY, -- re_…, the key under which the card network knows it
    mode           text NOT NULL,
    acquirer_ref   text NOT NULL,
    transaction_id text, -- null: the charge belongs to no transaction
    reason         text NOT NULL CHECK (reason IN ('unmatched', 'operator')),
    status         text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    network_ref    text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    amount         bigint NOT NULL, -- minor units
    asked_at       timestamptz -- when the card network was last asked about a refund that succeeded
);
CREATE INDEX refund_pending ON refund (id) WHERE status = 'pending';
-- A refund of a payment ends its payout.
CREATE INDEX refund_transaction ON refund (transaction_id);
CREATE INDEX refund_day ON refund (mode, created_at);
-- One refund of a charge is under way at a time.
CREATE UNIQUE INDEX refund_under_way_key ON refund (mode, acquirer_ref) WHERE status = 'pending';
-- The refunds of a charge.
CREATE INDEX refund_acquirer_ref ON refund (mode, acquirer_ref);
-- The refunds that the customer's bank may still return.
CREATE INDEX refund_returnable ON refund (mode, ended_at) WHERE status = 'succeeded';

-- An account of ours on a chain. Its row is locked while a transfer of it is signed.
CREATE TABLE treasury_account (
    id                text PRIMARY KEY,
    mode              text NOT NULL CHECK (mode IN ('test', 'live')),
    network           text NOT NULL,
    chain_id          text NOT NULL, -- CAIP-2, such as eip155:1
    address           text NOT NULL,
    next_nonce        bigint NOT NULL,
    next_block        bigint NOT NULL, -- the first block whose outflows were not compared with transfers
    seen_height       bigint NOT NULL, -- height of the newest balances that were compared with the ledger
    short_height      bigint, -- where a balance was first found to be below the ledger
    frozen_at         timestamptz,
    frozen_why        text NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL,
    -- The balances that were last compared with the ledger, at seen_height: decimals by currency.
    seen_balances     jsonb,
    -- The first block whose outflows the rows may lack; set when the chain knows more than they do.
    unexplained_block bigint,
    -- When the chain was last compared with the transfers, up to its last final block, and agreed with their nonces.
    compared_at       timestamptz,
    -- Units that unknown transactions used before the account was opened, or that a person has accepted.
    accepted_units    text[] NOT NULL DEFAULT '{}',
    -- When a person took a frozen account out of use: nothing that it did can have paid a payout that waits.
    retired_at        timestamptz,
    CONSTRAINT treasury_account_frozen_check CHECK ((frozen_at IS NULL) = (frozen_why = '')),
    CONSTRAINT treasury_account_address_key UNIQUE (mode, chain_id, address)
);

-- One nonce of an account. Of its versions the chain accepts at most one.
CREATE TABLE transfer (
    id         text PRIMARY KEY,
    account_id text NOT NULL REFERENCES treasury_account,
    nonce      bigint NOT NULL,
    status     text NOT NULL CHECK (status IN ('live', 'confirmed', 'reverted', 'dead', 'canceled')),
    generation integer NOT NULL DEFAULT 1, -- grows when a reorganization undoes a final state
    base       bigint NOT NULL, -- height of the chain when it was signed
    height     bigint, -- of the final block, with block_hash, tx_hash and cost
    block_hash text,
    tx_hash    text,
    cost       numeric, -- the fee that was paid, in the chain's own currency
    proved     bigint, -- height of the chain when the end was proved
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    -- When an operator asked to cancel it. It gets a version that pays nothing, and is canceled when the chain
    -- takes that version.
    cancel_at  timestamptz,
    CONSTRAINT transfer_ended_check CHECK (
        (status = 'live') = (ended_at IS NULL) AND (status = 'live') = (proved IS NULL)),
    CONSTRAINT transfer_account_nonce_key UNIQUE (account_id, nonce),
    CONSTRAINT transfer_block_check CHECK ((status IN ('confirmed', 'reverted', 'canceled')) = (tx_hash IS NOT NULL))
);
CREATE INDEX transfer_live ON transfer (account_id, nonce) WHERE status = 'live';
CREATE INDEX transfer_proved ON transfer (account_id, proved) WHERE proved IS NOT NULL;
CREATE INDEX transfer_created ON transfer (account_id, created_at);

-- A transfer of an account whose transactions have an order has a number as its slot: transfer.nonce, which is unique.
-- On other chains that number is only the order of signing, and the slot is these units.
CREATE TABLE transfer_slot (
    transfer_id text NOT NULL REFERENCES transfer,
    account_id  text NOT NULL REFERENCES treasury_account,
    unit        text NOT NULL,
    position    integer NOT NULL, -- in the slot, from 1: the transaction has its units in this order
    standing    boolean NOT NULL DEFAULT true, -- false once the transfer was proved dead
    PRIMARY KEY (transfer_id, unit)
);
-- Of two transfers with a common unit the chain accepts only one.
CREATE UNIQUE INDEX transfer_slot_standing_key ON transfer_slot (account_id, unit) WHERE standing;

-- The payouts of a transfer.
CREATE TABLE transfer_payout (
    transfer_id text NOT NULL REFERENCES transfer,
    payout_id   text NOT NULL REFERENCES payout,
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    currency    text NOT NULL,
    amount      numeric NOT NULL CHECK (amount > 0),
    fee         numeric NOT NULL CHECK (fee >= 0),
    value       bigint NOT NULL, -- US cents when it was signed, for the limits
    standing    boolean NOT NULL, -- false once the transfer was proved reverted or dead
    created_at  timestamptz NOT NULL,
    destination text NOT NULL, -- where the payout's part of the transfer goes
    PRIMARY KEY (transfer_id, payout_id)
);
-- A second transfer of a payout needs the proof that the first one never pays.
CREATE UNIQUE INDEX transfer_payout_standing_key ON transfer_payout (payout_id) WHERE standing;
CREATE INDEX transfer_payout_merchant ON transfer_payout (merchant_id, mode, created_at) WHERE standing;
CREATE INDEX transfer_payout_payout ON transfer_payout (payout_id);

-- A signed transaction. It is stored before it is sent, and never deleted.
CREATE TABLE transfer_version (
    tx_hash     text PRIMARY KEY,
    transfer_id text NOT NULL REFERENCES transfer,
    number      integer NOT NULL,
    currency    text NOT NULL,
    destination text NOT NULL,
    amount      numeric NOT NULL,
    fee         numeric NOT NULL,
    max_cost    numeric NOT NULL, -- the fee at most, in the chain's own currency
    terms       json NOT NULL,
    raw         bytea NOT NULL, -- moves money
    created_at  timestamptz NOT NULL,
    cancels     boolean NOT NULL DEFAULT false,
    CONSTRAINT transfer_version_number_key UNIQUE (transfer_id, number)
);

CREATE TABLE ledger_entry (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode        text NOT NULL,
    kind        text NOT NULL,
    subject     text NOT NULL, -- id of the transaction, transfer or treasury account
    generation  integer NOT NULL,
    merchant_id text REFERENCES merchant,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ledger_entry_subject_key UNIQUE (kind, subject, generation)
);
CREATE INDEX ledger_entry_day ON ledger_entry (mode, created_at);

-- Debits are positive, credits are negative. Per entry and asset the sum is 0.
CREATE TABLE ledger_posting (
    entry_id bigint NOT NULL REFERENCES ledger_entry,
    mode     text NOT NULL,
    account  text NOT NULL,
    holder   text NOT NULL DEFAULT '', -- the merchant of merchant:payable, the treasury account of wallet and transit
    asset    text NOT NULL,
    amount   numeric(38, 0) NOT NULL CHECK (amount <> 0), -- smallest unit
    PRIMARY KEY (entry_id, account, holder, asset)
);
CREATE INDEX ledger_posting_account ON ledger_posting (mode, account, holder, asset) INCLUDE (amount);

-- +goose StatementBegin
CREATE FUNCTION ledger_posting_balances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sum(amount) FROM ledger_posting WHERE entry_id = NEW.entry_id AND asset = NEW.asset) <> 0 THEN
        RAISE EXCEPTION 'ledger entry % is not balanced in %', NEW.entry_id, NEW.asset
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_posting_balance_check';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER ledger_posting_balance_check AFTER INSERT ON ledger_posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_posting_balances();

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is refused on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_entry_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_posting_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_posting
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transfer_version_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfer_version
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A difference between the books and the world, until it is explained.
CREATE TABLE finding (
    id         text PRIMARY KEY,
    mode       text NOT NULL,
    kind       text NOT NULL,
    subject    text NOT NULL,
    detail     text NOT NULL,
    opened_at  timestamptz NOT NULL,
    closed_at  timestamptz,
    closed_why text NOT NULL DEFAULT '' -- of an operator who closed it; '' when the difference was gone
);
CREATE UNIQUE INDEX finding_open_key ON finding (mode, kind, subject) WHERE closed_at IS NULL;

-- The test mode's card network and chain. They stand for systems outside, so nothing above refers to them.
CREATE TABLE sandbox_charge (
    transaction_id text PRIMARY KEY,
    session_id     text NOT NULL,
    behavior       text NOT NULL,
    method         json NOT NULL,
    amount         bigint NOT NULL,
    currency       text NOT NULL,
    outcome        text NOT NULL,
    failure        text NOT NULL DEFAULT '',
    return_url     text NOT NULL,
    calls          integer NOT NULL DEFAULT 1, -- how often the charge was asked for
    settle_at      timestamptz, -- when a processing charge is decided
    callbacks      integer NOT NULL DEFAULT 0, -- callbacks still to be made
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sandbox_charge_due ON sandbox_charge (settle_at) WHERE callbacks > 0;
CREATE INDEX sandbox_charge_age ON sandbox_charge (created_at);

CREATE TABLE sandbox_transfer (
    tx_hash    text PRIMARY KEY,
    payout_id  text NOT NULL UNIQUE,
    broadcasts integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sandbox_transfer_age ON sandbox_transfer (created_at);
