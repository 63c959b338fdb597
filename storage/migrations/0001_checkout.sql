-- +goose Up
-- Every row belongs to one merchant and one mode, and every query says which.

CREATE TABLE merchant (
    id               text PRIMARY KEY,
    name             text NOT NULL,
    plan             text NOT NULL,
    fee_basis_points bigint NOT NULL CONSTRAINT merchant_fee_check CHECK (fee_basis_points BETWEEN 0 AND 10000),
    payment_attempts integer NOT NULL CONSTRAINT merchant_payment_attempts_check CHECK (payment_attempts BETWEEN 1 AND 10),
    order_id_guard   boolean NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE payout_address (
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text NOT NULL CONSTRAINT payout_address_mode_check CHECK (mode IN ('test', 'live')),
    currency    text NOT NULL,
    network     text NOT NULL,
    address     text NOT NULL,
    PRIMARY KEY (merchant_id, mode, currency)
);

CREATE TABLE api_key (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text NOT NULL CONSTRAINT api_key_mode_check CHECK (mode IN ('test', 'live')),
    label       text NOT NULL,
    hash        bytea NOT NULL CONSTRAINT api_key_hash_key UNIQUE, -- SHA-256 of the key; the key itself is nowhere
    last4       text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    revoked_at  timestamptz
);

-- The encryption keys that sealed something here; check_value proves that the
-- process holds the right key before it signs with what the key unseals.
CREATE TABLE master_key (
    id          text PRIMARY KEY,
    check_value bytea NOT NULL
);

CREATE TABLE webhook_endpoint (
    id            text PRIMARY KEY,
    merchant_id   text NOT NULL REFERENCES merchant,
    mode          text NOT NULL CONSTRAINT webhook_endpoint_mode_check CHECK (mode IN ('test', 'live')),
    url           text NOT NULL,
    events        text[] NOT NULL,
    description   text,
    status        text NOT NULL CONSTRAINT webhook_endpoint_status_check CHECK (status IN ('enabled', 'disabled')),
    session_id    text,           -- set: not a registration, but the secret of one session's webhook_url
    master_key_id text NOT NULL REFERENCES master_key,
    sealed_digest bytea NOT NULL, -- AES-256-GCM of SHA-256(secret), bound to id
    created_at    timestamptz NOT NULL,
    deleted_at    timestamptz
);
CREATE INDEX webhook_endpoint_merchant ON webhook_endpoint (merchant_id, mode, created_at) WHERE deleted_at IS NULL AND session_id IS NULL;

CREATE TABLE checkout_session (
    id                  text PRIMARY KEY,
    merchant_id         text NOT NULL REFERENCES merchant,
    mode                text NOT NULL CONSTRAINT checkout_session_mode_check CHECK (mode IN ('test', 'live')),
    amount              bigint NOT NULL CONSTRAINT checkout_session_amount_check CHECK (amount > 0),
    currency            text NOT NULL,
    payout_currency     text NOT NULL,
    status              text NOT NULL CONSTRAINT checkout_session_status_check CHECK (status IN ('pending', 'completed', 'failed', 'expired')),
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
    CONSTRAINT checkout_session_ended_check CHECK ((status = 'pending') = (ended_at IS NULL)),
    CONSTRAINT checkout_session_in_flight_check CHECK (status = 'pending' OR NOT payment_in_flight)
);
CREATE UNIQUE INDEX checkout_session_order_id_key ON checkout_session (merchant_id, mode, order_id)
    WHERE order_id IS NOT NULL AND status IN ('pending', 'completed');
CREATE INDEX checkout_session_merchant ON checkout_session (merchant_id, mode, id);

CREATE TABLE transaction (
    id                 text PRIMARY KEY,
    session_id         text NOT NULL REFERENCES checkout_session,
    merchant_id        text NOT NULL,
    mode               text NOT NULL,
    status             text NOT NULL CONSTRAINT transaction_status_check CHECK (status IN ('created', 'processing', 'succeeded', 'failed')),
    outcome            text,    -- what the card network said last; decides nothing until status follows
    attempt            integer, -- set once the workflow has accepted the payment
    fee                bigint NOT NULL DEFAULT 0,
    net                bigint NOT NULL DEFAULT 0,
    exchange_rate      text NOT NULL DEFAULT '',
    customer_email     text,
    card_token         text,    -- the card network's, useless elsewhere; removed once decided
    payment_method     json NOT NULL,
    failure            text NOT NULL DEFAULT '',
    action_url         text,
    attempts_remaining integer NOT NULL DEFAULT 0,
    session_status     text NOT NULL DEFAULT 'pending',
    created_at         timestamptz NOT NULL,
    completed_at       timestamptz,
    CONSTRAINT transaction_session_attempt_key UNIQUE (session_id, attempt)
);
-- At most one payment of a session is in flight, and at most one ever succeeds.
CREATE UNIQUE INDEX transaction_in_flight_key ON transaction (session_id) WHERE status = 'processing';
CREATE UNIQUE INDEX transaction_succeeded_key ON transaction (session_id) WHERE status = 'succeeded';

CREATE TABLE payout (
    id              text PRIMARY KEY,
    session_id      text NOT NULL CONSTRAINT payout_session_id_key UNIQUE REFERENCES checkout_session,
    transaction_id  text NOT NULL REFERENCES transaction,
    merchant_id     text NOT NULL,
    mode            text NOT NULL,
    status          text NOT NULL CONSTRAINT payout_status_check CHECK (status IN ('pending', 'sent', 'failed')),
    amount          text NOT NULL DEFAULT '',
    currency        text NOT NULL,
    network         text NOT NULL,
    destination     text NOT NULL,
    source_amount   bigint NOT NULL,
    source_currency text NOT NULL,
    exchange_rate   text NOT NULL,
    fee             text NOT NULL DEFAULT '',
    tx_hash         text NOT NULL DEFAULT '',
    failure         text NOT NULL DEFAULT '',
    signed_transfer bytea, -- stored before it is sent, so that a repeat sends the same bytes
    created_at      timestamptz NOT NULL,
    sent_at         timestamptz,
    failed_at       timestamptz
);

CREATE TABLE event (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    type        text NOT NULL,
    subject_id  text NOT NULL,
    session_id  text,
    created_at  timestamptz NOT NULL,
    body        bytea NOT NULL, -- the exact bytes that every delivery sends
    CONSTRAINT event_subject_type_key UNIQUE (subject_id, type)
);

CREATE TABLE webhook_delivery (
    id              text PRIMARY KEY,
    event_id        text NOT NULL REFERENCES event,
    merchant_id     text NOT NULL,
    mode            text NOT NULL,
    endpoint_id     text NOT NULL REFERENCES webhook_endpoint, -- whose secret signs
    url             text NOT NULL,
    status          text NOT NULL CONSTRAINT webhook_delivery_status_check CHECK (status IN ('pending', 'delivered', 'failed', 'canceled')),
    run             integer NOT NULL DEFAULT 0, -- 1 once the first run has begun; replays add one
    run_id          text,                       -- Temporal's id of that run
    next_attempt_at timestamptz,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    CONSTRAINT webhook_delivery_event_endpoint_key UNIQUE (event_id, endpoint_id)
);

CREATE TABLE webhook_attempt (
    delivery_id   text NOT NULL REFERENCES webhook_delivery,
    run           integer NOT NULL,
    number        integer NOT NULL,
    started_at    timestamptz NOT NULL,
    duration_ms   integer, -- null: not finished, or its worker died
    status_code   integer,
    error_kind    text,
    response_body bytea,
    PRIMARY KEY (delivery_id, run, number)
);

-- The test mode's card network and chain. They stand for systems outside, so
-- nothing above refers to them.
CREATE TABLE sandbox_card (
    token      text PRIMARY KEY,
    behavior   text NOT NULL,
    method     json NOT NULL, -- brand, last four digits, expiry: never the number
    created_at timestamptz NOT NULL DEFAULT now()
);

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
    settle_at      timestamptz,                -- when a processing charge is decided
    callbacks      integer NOT NULL DEFAULT 0, -- callbacks still to be made
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sandbox_charge_due ON sandbox_charge (settle_at) WHERE callbacks > 0;

CREATE TABLE sandbox_transfer (
    tx_hash    text PRIMARY KEY,
    payout_id  text NOT NULL CONSTRAINT sandbox_transfer_payout_id_key UNIQUE,
    broadcasts integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE sandbox_transfer, sandbox_charge, sandbox_card, webhook_attempt, webhook_delivery, event, payout,
    transaction, checkout_session, webhook_endpoint, master_key, api_key, payout_address, merchant;
