-- The tables of the acquirer. This is applied at every start.
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
CREATE INDEX IF NOT EXISTS webhook_due_idx ON acquirer.webhook (due_at) WHERE taken_at IS NULL;
