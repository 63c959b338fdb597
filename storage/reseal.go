package storage

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
)

// sealing names sealed columns of a table and the column with the id of their key.
type sealing struct {
	what   string // for people
	table  string
	owner  string // SQL of the text to which the values are bound, see Keyring.Seal
	key    string
	values []string
}

// sealings are all sealed values of the schema.
var sealings = []sealing{
	{"webhook secrets", "webhook_endpoint", "id", "master_key_id", []string{"sealed_digest"}},
	{"previous webhook secrets", "webhook_endpoint", "id", "previous_master_key_id",
		[]string{"previous_sealed_digest"}},
	{"idempotent answers", "idempotent_request", `concat_ws(E'\n', merchant_id, mode, route, key)`,
		"master_key_id", []string{"seed", "answer"}},
	{"secrets to be shown once", "reveal", "subject", "master_key_id", []string{"sealed"}},
	{"second factors", "second_factor", "'second factor ' || member_id", "master_key_id", []string{"sealed"}},
}

// Resealed is what Reseal did.
type Resealed struct {
	Current string         // id of the key that seals now
	Values  map[string]int // rows that were sealed again, by what they are
	Retired []string       // ids of the keys that nothing needs any more
	Used    []string       // ids of other keys that still sealed something at the end
}

// resealPage is how many rows a transaction seals again.
const resealPage = 500

// Reseal seals with the first key of the keyring what other keys sealed, of all merchants. It works
// in pages and calls progress after each of them with the number of rows of one kind. What a page
// sealed stays, so a Reseal that was stopped may be repeated; several may run at once. At the end it
// retires the keys that have sealed nothing that is left: Open needs them no longer.
func (s *Installation) Reseal(ctx context.Context, progress func(what string, rows int)) (Resealed, error) {
	done := Resealed{Current: s.keys.Current(), Values: map[string]int{}}
	old, err := pg.Values[string](ctx, s.pool,
		`SELECT id FROM master_key WHERE id <> $1 ORDER BY id`, s.keys.Current())
	if err != nil {
		return done, pg.Wrap("reseal", err)
	}
	for _, key := range old {
		for _, of := range sealings {
			n, err := s.resealAll(ctx, key, of, progress)
			done.Values[of.what] += n
			if err != nil {
				return done, fmt.Errorf("reseal %s: %w", of.what, err)
			}
		}
		retired, err := s.retireKey(ctx, key)
		if err != nil {
			return done, fmt.Errorf("retire key %q: %w", key, err)
		}
		if retired {
			done.Retired = append(done.Retired, key)
		} else {
			done.Used = append(done.Used, key)
		}
	}
	return done, nil
}

// resealAll seals again what one key sealed.
func (s *Installation) resealAll(
	ctx context.Context, key string, of sealing, progress func(what string, rows int),
) (total int, err error) {
	for {
		n, err := s.resealSome(ctx, key, of)
		if err != nil || n == 0 {
			return total, err
		}
		total += n
		progress(of.what, total)
	}
}

// resealSome seals up to resealPage rows again and returns their number. It leaves rows out that others
// change at the moment.
func (s *Installation) resealSome(ctx context.Context, key string, of sealing) (int, error) {
	return pg.InTx(ctx, s.pool, "reseal", func(tx pgx.Tx) (int, error) {
		found, err := pg.Collect[sealedRow](ctx, tx, fmt.Sprintf(`
			SELECT ctid::text AS place, %s AS owner, ARRAY[%s] AS values FROM %s WHERE %s = $1
			LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED`, of.owner, strings.Join(of.values, ", "), of.table, of.key), key, resealPage)
		if err != nil {
			return 0, err
		}
		batch := &pgx.Batch{}
		for _, row := range found {
			if err := s.queueReseal(batch, key, of, row); err != nil {
				return 0, err
			}
		}
		return len(found), tx.SendBatch(ctx, batch).Close()
	})
}

// sealedRow is a locked row. The lock keeps its place in the table.
type sealedRow struct {
	Place  string
	Owner  string
	Values [][]byte
}

func (s *Installation) queueReseal(batch *pgx.Batch, key string, of sealing, row sealedRow) error {
	set := fmt.Sprintf("%s = $2", of.key)
	args := []any{row.Place, s.keys.Current()}
	for i, sealed := range row.Values {
		if len(sealed) == 0 { // no value, or one that was removed
			continue
		}
		plain, err := s.keys.Unseal(key, row.Owner, sealed)
		if err != nil {
			return fmt.Errorf("a row of %s: %w", of.table, err)
		}
		_, sealed := s.keys.Seal(row.Owner, plain)
		args = append(args, sealed)
		set += fmt.Sprintf(", %s = $%d", of.values[i], len(args))
	}
	batch.Queue(fmt.Sprintf(`UPDATE %s SET %s WHERE ctid = $1::text::tid`, of.table, set), args...)
	return nil
}

// retireKey notes that nothing needs a key any more. It returns false when something does.
func (s *Installation) retireKey(ctx context.Context, key string) (bool, error) {
	return pg.InTx(ctx, s.pool, "retire key", func(tx pgx.Tx) (bool, error) {
		used, err := keyUsed(ctx, tx, key)
		if err != nil || used {
			return false, err
		}
		_, err = tx.Exec(ctx, `
			UPDATE master_key SET retired_at = coalesce(retired_at, clock_timestamp()) WHERE id = $1`, key)
		return true, err
	})
}

// keyUsed reports whether a key has sealed something that is still there.
func keyUsed(ctx context.Context, tx pgx.Tx, key string) (bool, error) {
	parts := make([]string, 0, len(sealings))
	for _, of := range sealings {
		parts = append(parts, fmt.Sprintf("EXISTS (SELECT FROM %s WHERE %s = $1)", of.table, of.key))
	}
	return pg.Value[bool](ctx, tx, `SELECT `+strings.Join(parts, " OR "), key)
}
