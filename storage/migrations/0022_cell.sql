-- +goose Up
-- The cell that this installation is: two characters in its ids and keys. A cell is a whole installation with some of
-- the merchants.
CREATE TABLE installation (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    cell text NOT NULL CHECK (cell ~ '^[0-9a-hjkmnp-tv-z]{2}$')
);
INSERT INTO installation (cell) VALUES ('00');

-- +goose Down
DROP TABLE installation;
