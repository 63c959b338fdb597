-- +goose Up
-- Evidence about a dispute. It has data of the customer, which stays here only until the card network has it.
CREATE TABLE dispute_evidence (
    risk_id      text PRIMARY KEY REFERENCES charge_risk ON DELETE CASCADE,
    merchant_id  text NOT NULL,
    mode         text NOT NULL,
    request_id   text NOT NULL, -- of the request that sent it: its repeat changes nothing
    inquiry      boolean NOT NULL, -- the bank only asked: a dispute that follows wants evidence anew
    content      json, -- null: the card network has it, or refused it
    submitted_by text NOT NULL, -- as in audit_entry.actor
    submitted_at timestamptz NOT NULL,
    sent_at      timestamptz, -- when the card network took it
    failure      text NOT NULL DEFAULT '' -- why the card network did not take it
);
CREATE INDEX dispute_evidence_due ON dispute_evidence (submitted_at) WHERE content IS NOT NULL;
