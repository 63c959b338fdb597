-- +goose Up
-- The treasury of live mode: accounts on chains, signed transfers, and the ledger.

ALTER TABLE payout
    ADD COLUMN generation     integer NOT NULL DEFAULT 1, -- a retry of a failed payout adds one
    ADD COLUMN hold           text NOT NULL DEFAULT '',   -- why a pending payout is not sent at present
    ADD COLUMN held_at        timestamptz,                -- since when, in this generation
    ADD COLUMN next_action_at timestamptz,                -- when a payout on hold is tried again
    ADD COLUMN confirmed_at   timestamptz;                -- when its transfer was final on the chain
-- Reconcile looks for pending payouts that are due.
CREATE INDEX payout_due ON payout (coalesce(next_action_at, created_at)) WHERE status = 'pending';

-- payout.sent may follow payout.failed, in the next generation. The constraint keeps its name: the build
-- of before knows it. No event can be stored while the index is built, which takes about a second for a
-- million events.
ALTER TABLE event ADD COLUMN generation integer NOT NULL DEFAULT 1;
ALTER TABLE event DROP CONSTRAINT event_subject_type_key,
    ADD CONSTRAINT event_subject_type_key UNIQUE (subject_id, type, generation);

-- An account of ours on a chain. Its row is locked while a transfer of it is signed.
CREATE TABLE treasury_account (
    id           text PRIMARY KEY,
    mode         text NOT NULL CONSTRAINT treasury_account_mode_check CHECK (mode IN ('test', 'live')),
    network      text NOT NULL,
    chain_id     text NOT NULL, -- CAIP-2, such as eip155:1
    address      text NOT NULL,
    next_nonce   bigint NOT NULL,
    next_block   bigint NOT NULL, -- the first block whose outflows were not compared with transfers
    seen_height  bigint NOT NULL, -- height of the newest balances that were compared with the ledger
    short_height bigint,          -- where a balance was first found to be below the ledger
    frozen_at    timestamptz,
    frozen_why   text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL,
    CONSTRAINT treasury_account_address_key UNIQUE (mode, chain_id, address),
    CONSTRAINT treasury_account_frozen_check CHECK ((frozen_at IS NULL) = (frozen_why = ''))
);

-- One nonce of an account. Of its versions the chain accepts at most one.
CREATE TABLE transfer (
    id         text PRIMARY KEY,
    account_id text NOT NULL REFERENCES treasury_account,
    nonce      bigint NOT NULL,
    status     text NOT NULL CONSTRAINT transfer_status_check CHECK (status IN ('live', 'confirmed', 'reverted', 'dead')),
    generation integer NOT NULL DEFAULT 1, -- grows when a reorganization undoes a final state
    base       bigint NOT NULL,            -- height of the chain when it was signed
    height     bigint,                     -- of the final block, with block_hash, tx_hash and cost
    block_hash text,
    tx_hash    text,
    cost       numeric,                    -- the fee that was paid, in the chain's own currency
    proved     bigint,                     -- height of the chain when the end was proved
    created_at timestamptz NOT NULL,
    ended_at   timestamptz,
    CONSTRAINT transfer_account_nonce_key UNIQUE (account_id, nonce),
    CONSTRAINT transfer_ended_check CHECK ((status = 'live') = (ended_at IS NULL) AND (status = 'live') = (proved IS NULL)),
    CONSTRAINT transfer_block_check CHECK ((status IN ('confirmed', 'reverted')) = (tx_hash IS NOT NULL))
);
CREATE INDEX transfer_live ON transfer (account_id, nonce) WHERE status = 'live';
CREATE INDEX transfer_proved ON transfer (account_id, proved) WHERE proved IS NOT NULL;
CREATE INDEX transfer_created ON transfer (account_id, created_at);

-- The payouts of a transfer.
CREATE TABLE transfer_payout (
    transfer_id text NOT NULL REFERENCES transfer,
    payout_id   text NOT NULL REFERENCES payout,
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    currency    text NOT NULL,
    amount      numeric NOT NULL CONSTRAINT transfer_payout_amount_check CHECK (amount > 0),
    fee         numeric NOT NULL CONSTRAINT transfer_payout_fee_check CHECK (fee >= 0),
    value       bigint NOT NULL,  -- US cents when it was signed, for the limits
    standing    boolean NOT NULL, -- false once the transfer was proved reverted or dead
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (transfer_id, payout_id)
);
-- A second transfer of a payout needs the proof that the first one never pays.
CREATE UNIQUE INDEX transfer_payout_standing_key ON transfer_payout (payout_id) WHERE standing;
CREATE INDEX transfer_payout_merchant ON transfer_payout (merchant_id, mode, created_at) WHERE standing;

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
    raw         bytea NOT NULL,   -- moves money
    created_at  timestamptz NOT NULL,
    CONSTRAINT transfer_version_number_key UNIQUE (transfer_id, number)
);

CREATE TABLE ledger_entry (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode        text NOT NULL,
    kind        text NOT NULL,
    subject     text NOT NULL,    -- id of the transaction, transfer or treasury account
    generation  integer NOT NULL,
    merchant_id text REFERENCES merchant,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ledger_entry_subject_key UNIQUE (kind, subject, generation)
);

-- Debits are positive, credits are negative. Per entry and asset the sum is 0.
CREATE TABLE ledger_posting (
    entry_id bigint NOT NULL REFERENCES ledger_entry,
    mode     text NOT NULL,
    account  text NOT NULL,
    holder   text NOT NULL DEFAULT '', -- the merchant of merchant:payable, the treasury account of wallet and transit
    asset    text NOT NULL,
    amount   numeric(38, 0) NOT NULL CONSTRAINT ledger_posting_amount_check CHECK (amount <> 0), -- smallest unit
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

-- +goose Down
DROP TABLE ledger_posting, ledger_entry, transfer_version, transfer_payout, transfer, treasury_account;
DROP FUNCTION refuse_change, ledger_posting_balances;
ALTER TABLE event DROP CONSTRAINT event_subject_type_key,
    ADD CONSTRAINT event_subject_type_key UNIQUE (subject_id, type);
ALTER TABLE event DROP COLUMN generation;
DROP INDEX payout_due;
ALTER TABLE payout DROP COLUMN confirmed_at, DROP COLUMN next_action_at, DROP COLUMN held_at, DROP COLUMN hold,
    DROP COLUMN generation;
