package storage

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// stalePicture is true for a picture p that a new session has fetched again. A shop changes a picture and keeps
// its address, or mends its server and tries again.
const stalePicture = `(p.status = 'ready' AND p.fetched_at < clock_timestamp() - interval '1 day'
	OR p.status = 'failed' AND p.fetched_at < clock_timestamp() - interval '1 minute')`

// wantedPictures are the URLs of a session: w.id for a new fetch, w.url and w.digest.
const wantedPictures = `
	(SELECT id, url, sha256(convert_to(url, 'UTF8')) AS digest FROM unnest($3::text[], $4::text[]) AS u (id, url)) w`

// maxPendingPictures bounds what a merchant's mode may leave to fetch. What comes beyond it is not fetched.
const maxPendingPictures = 200

// roomForPictures is true while fewer are pending.
const roomForPictures = `(
	SELECT count(*) FROM (
		SELECT FROM picture p WHERE p.merchant_id = $1 AND p.mode = $2 AND p.status = 'pending' LIMIT $5) pending) < $5`

// usePictures adds the URLs that are new to the merchant and mode, and notes that the others are used, once an
// hour at most: so creates that use the same pictures seldom wait for each other. The order prevents deadlocks.
const usePictures = `
	INSERT INTO picture AS used (id, merchant_id, mode, url, url_digest)
	SELECT w.id, $1, $2, w.url, w.digest FROM ` + wantedPictures + `
	WHERE NOT EXISTS (
		SELECT FROM picture p WHERE p.merchant_id = $1 AND p.mode = $2 AND p.url_digest = w.digest
			AND p.last_used_at > clock_timestamp() - interval '1 hour' AND NOT ` + stalePicture + `)
		AND ` + roomForPictures + `
	ORDER BY w.digest
	ON CONFLICT (merchant_id, mode, url_digest) DO UPDATE SET last_used_at = excluded.last_used_at
	RETURNING used.id, used.url`

// renewPictures begins a new fetch of the stale ones. usePictures has locked them.
const renewPictures = `
	UPDATE picture p SET id = w.id, status = 'pending', tries = 0, failure = NULL, content_type = NULL, content = NULL,
		width = NULL, height = NULL, created_at = clock_timestamp(), fetched_at = NULL
	FROM ` + wantedPictures + `
	WHERE p.merchant_id = $1 AND p.mode = $2 AND p.url_digest = w.digest AND ` + stalePicture + `
		AND ` + roomForPictures + `
	RETURNING p.id, p.url`

// usedPicture is a picture of a session to create.
type usedPicture struct{ ID, URL string }

// insertPictures makes the pictures of the session's line items known. It returns those that must be fetched.
// A session without pictures costs no round trip.
func (s *Sessions) insertPictures(ctx context.Context, session checkout.Session) (added []checkout.Picture, err error) {
	var ids, urls []string
	for _, item := range session.LineItems {
		if item.ImageURL != nil && !slices.Contains(urls, *item.ImageURL) {
			ids, urls = append(ids, checkout.NewID(checkout.PrefixPicture)), append(urls, *item.ImageURL)
		}
	}
	if len(urls) == 0 {
		return nil, nil
	}
	return pg.InTx(ctx, s.pool, "pictures", func(tx pgx.Tx) (added []checkout.Picture, err error) {
		var batch pgx.Batch
		var used, renewed []usedPicture
		pg.Queue(&batch, &used, usePictures, session.MerchantID, session.Mode, ids, urls, maxPendingPictures)
		pg.Queue(&batch, &renewed, renewPictures, session.MerchantID, session.Mode, ids, urls, maxPendingPictures)
		err = tx.SendBatch(ctx, &batch).Close() // fills both
		for _, p := range append(used, renewed...) {
			if slices.Contains(ids, p.ID) {
				added = append(added, checkout.Picture{ID: p.ID, URL: p.URL})
			}
		}
		return added, err
	})
}

// shownPictures are the pictures p that the page of the session $1 can show.
const shownPictures = `
	FROM checkout_session s CROSS JOIN LATERAL json_array_elements(s.line_items) i
	JOIN picture p ON p.merchant_id = s.merchant_id AND p.mode = s.mode
		AND p.url_digest = sha256(convert_to(i->>'image_url', 'UTF8')) AND p.status = 'ready'
	WHERE s.id = $1`

// picturesOf reads the pictures that the session's page can show. A session without pictures costs nothing.
func (s *SessionReader) picturesOf(ctx context.Context, session checkout.Session) ([]checkout.Picture, error) {
	pictured := func(i checkout.LineItem) bool { return i.ImageURL != nil }
	if !slices.ContainsFunc(session.LineItems, pictured) {
		return nil, nil
	}
	all, err := pg.Collect[checkout.Picture](ctx, s.pool, `
		SELECT DISTINCT p.id, p.url, p.width, p.height`+shownPictures, session.ID)
	return all, pg.Wrap("pictures", err)
}

// PictureFile is a picture as it is stored, or why there is none.
type PictureFile struct {
	ContentType   string // image/jpeg or image/png
	Content       []byte
	Width, Height int    // in pixels
	Failure       string // "" for a picture; merchants' data is not in it
}

// CustomerPicture returns a picture of a session's page. The customer knows the session's id, as in
// CustomerSession. It returns checkout.ErrNotFound.
func (s *SessionReader) CustomerPicture(ctx context.Context, sessionID, pictureID string) (f PictureFile, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT p.content_type, p.content, p.width, p.height`+shownPictures+` AND p.id = $2 LIMIT 1`,
		sessionID, pictureID).Scan(&f.ContentType, &f.Content, &f.Width, &f.Height)
	return f, pg.Wrap("picture", pg.Found(err))
}

// BeginPicture counts a try to fetch a pending picture. It returns its URL and the number of the try, the first
// being 1. It returns checkout.ErrNotFound when the picture is not pending, or gone.
func (s *Pictures) BeginPicture(ctx context.Context, ref checkout.Ref) (url string, try int, err error) {
	err = s.pool.QueryRow(ctx, `
		UPDATE picture SET tries = tries + 1
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending' RETURNING url, tries`,
		ref.ID, ref.MerchantID, ref.Mode).Scan(&url, &try)
	return url, try, pg.Wrap("begin picture", pg.Found(err))
}

// FinishPicture stores how the fetch of a pending picture ended. For another picture it changes nothing.
func (s *Pictures) FinishPicture(ctx context.Context, ref checkout.Ref, f PictureFile) error {
	return pg.Exec(ctx, s.pool, "finish picture", `
		UPDATE picture SET status = CASE WHEN $8 = '' THEN 'ready' ELSE 'failed' END, failure = nullif($8, ''),
			content_type = nullif($4, ''), content = $5, width = nullif($6, 0), height = nullif($7, 0),
			fetched_at = clock_timestamp()
		WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'`,
		ref.ID, ref.MerchantID, ref.Mode, f.ContentType, f.Content, f.Width, f.Height, f.Failure)
}
