-- +goose Up
-- Up to when the charges and the movements of the card network are compared for good, by mode.
CREATE TABLE acquirer_comparison (
    mode        text PRIMARY KEY,
    compared_to timestamptz NOT NULL
);
