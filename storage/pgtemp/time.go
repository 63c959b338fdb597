package pgtemp

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// StopTime gives the time of this call to column of every row that is inserted into table from now on. It is also the
// time in the row excluded of INSERT … ON CONFLICT. So a token bucket, for example, gets no token back while a slow
// test runs. url names the test's own database. Every error ends the test.
func StopTime(tb testing.TB, url, table, column string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatalf("stop the time of %s: %v", table, err)
	}
	defer conn.Close(tb.Context())

	name, now := pgx.Identifier{"stopped_" + table}.Sanitize(), time.Now().UTC().Format(time.RFC3339Nano)
	_, err = conn.Exec(tb.Context(), `
		CREATE FUNCTION `+name+`() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN NEW.`+pgx.Identifier{column}.Sanitize()+` := '`+now+`'; RETURN NEW; END $$;
		CREATE TRIGGER stopped BEFORE INSERT ON `+pgx.Identifier{table}.Sanitize()+`
			FOR EACH ROW EXECUTE FUNCTION `+name+`()`)
	if err != nil {
		tb.Fatalf("stop the time of %s: %v", table, err)
	}
}
