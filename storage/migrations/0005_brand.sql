-- +goose Up
-- The look of a merchant's hosted page.
ALTER TABLE merchant
    ADD COLUMN brand_color text CONSTRAINT merchant_brand_color_check CHECK (brand_color ~ '^#[0-9a-f]{6}$'), -- null: the page's own
    ADD COLUMN logo bytea CONSTRAINT merchant_logo_check -- a PNG that storage.EncodeLogo made; null: none
        CHECK (octet_length(logo) <= 131072 AND substring(logo FROM 1 FOR 8) = '\x89504e470d0a1a0a'),
    -- Stored, so that a page view need not read the picture to know its URL.
    ADD COLUMN logo_version text GENERATED ALWAYS AS (left(encode(sha256(logo), 'hex'), 16)) STORED;

-- +goose Down
ALTER TABLE merchant DROP COLUMN logo_version, DROP COLUMN logo, DROP COLUMN brand_color;
