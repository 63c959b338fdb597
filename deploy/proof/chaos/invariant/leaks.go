package invariant

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Canary is a unique value, for which logs and tables can be searched.
type Canary struct {
	Name  string // for people; the value is never shown
	Value string
	// Tables are the tables of the service that may hold the value. No other table may hold it, in
	// particular no table of Temporal, where the histories are.
	Tables []string
	Logged bool // the logs may hold it, so that people can find it there
}

// HeaderCanaries are values that a caller's software may put into the headers of a request. The
// service must neither store them nor pass them on. People look for a request by its id, so the log of requests has it.
var HeaderCanaries = []struct {
	Canary
	Header, Form string // Form holds the value
}{
	{Canary{Name: "baggage", Value: "canary-baggage-2261"}, "Baggage", "customer=%s"},
	{Canary{Name: "trace state", Value: "canary-state-7734"}, "Tracestate", "shop=%s"},
	{Canary{Name: "user agent", Value: "canary-agent-9012"}, "User-Agent", "Mozilla/5.0 (%s)"},
	{Canary{Name: "referrer", Value: "canary-referrer-4485"}, "Referer", "https://shop.example/?from=%s"},
	{Canary{Name: "cookie", Value: "canary-cookie-3370"}, "Cookie", "theme=%s"},
	{Canary{Name: "forwarded address", Value: "canary-forwarded-5518"}, "X-Forwarded-For", "%s"},
	{
		Canary{Name: "request id", Value: "canary-request-6647", Tables: []string{"api_request"}, Logged: true},
		"X-Request-Id", "%s",
	},
}

// AddHeaderCanaries puts the canaries into a request, with a trace that could carry them.
func AddHeaderCanaries(h http.Header) {
	h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	for _, c := range HeaderCanaries {
		h.Set(c.Header, fmt.Sprintf(c.Form, c.Value))
	}
}

// Leak is a canary in a wrong place.
type Leak struct {
	Canary string
	Where  string // a file, or database.table
	Times  int    // rows or files
}

func (w *world) leaks(r *Result) {
	r.Checked = w.Searched
	for _, leak := range w.Leaks {
		r.violated(leak.Canary, "is in %s, %d times", leak.Where, leak.Times)
	}
}

// Databases are the databases of a stack.
var Databases = []string{"checkout", "temporal", "temporal_visibility"}

// readLeaks looks for the canaries of a run.
func readLeaks(ctx context.Context, s Sources, f *Facts) error {
	if len(s.Canaries) == 0 {
		return nil
	}
	leaks, searched, err := FindLeaks(ctx, s.DatabaseURL, s.Logs, s.Canaries)
	f.Leaks, f.Searched = append(f.Leaks, leaks...), searched
	return err
}

// FindLeaks looks for canaries in every log below a directory and in every table of the databases of a server. It
// returns the canaries in wrong places, and the number of places that it has searched.
func FindLeaks(ctx context.Context, url, logs string, canaries []Canary) (leaks []Leak, searched int, err error) {
	if leaks, searched, err = searchLogs(logs, canaries); err != nil {
		return nil, 0, err
	}
	for _, database := range Databases {
		found, err := SearchDatabase(ctx, url, database, canaries)
		if err != nil {
			return nil, 0, err
		}
		for table, rows := range found {
			for i, c := range canaries {
				searched++
				if rows[i] > 0 && !c.belongs(database, table) {
					leaks = append(leaks, Leak{c.Name, database + "." + table, rows[i]})
				}
			}
		}
	}
	return leaks, searched, nil
}

// belongs reports whether a table of a database may hold the canary.
func (c Canary) belongs(database, table string) bool {
	return database == "checkout" && slices.Contains(c.Tables, table)
}

func searchLogs(dir string, canaries []Canary) (leaks []Leak, searched int, err error) {
	logs := os.DirFS(dir)
	err = fs.WalkDir(logs, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
			return nil //nolint:nilerr // PostgreSQL's own files come and go
		}
		text, err := fs.ReadFile(logs, path)
		for _, c := range canaries {
			searched++
			if !c.Logged && strings.Contains(string(text), c.Value) {
				leaks = append(leaks, Leak{c.Name, path, 1})
			}
		}
		return err
	})
	return leaks, searched, err
}

// SearchDatabase returns, for each table of a database, the number of rows that hold each canary, by
// the canary's index. It finds a value as text and as bytes. The server is that of url, and the database too when
// it has no other name.
func SearchDatabase(ctx context.Context, url, database string, canaries []Canary) (map[string]map[int]int, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.Database = cmp.Or(database, config.Database)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // everything was read
	rows, _ := conn.Query(
		ctx,
		`SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`,
	) // CollectRows returns the error
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	// A value as PostgreSQL shows its bytes, and as text.
	hexes, texts := make([]string, len(canaries)), make([]string, len(canaries))
	for i, c := range canaries {
		hexes[i], texts[i] = hex.EncodeToString([]byte(c.Value)), c.Value
		if strings.ContainsFunc(c.Value, func(r rune) bool { return r < ' ' || r > '~' }) {
			texts[i] = hexes[i]
		}
	}
	found := map[string]map[int]int{}
	for _, table := range tables {
		rows, _ := conn.Query(ctx, `
			SELECT n.i - 1, count(*) FROM (SELECT r::text AS text FROM `+pgx.Identifier{table}.Sanitize()+` r OFFSET 0) line
			JOIN unnest($1::text[], $2::text[]) WITH ORDINALITY n (hex, value, i)
				ON strpos(line.text, n.hex) > 0 OR strpos(line.text, n.value) > 0 GROUP BY n.i`, hexes, texts)
		found[table] = map[int]int{}
		var i, n int
		_, err := pgx.ForEachRow(rows, []any{&i, &n}, func() error { found[table][i] = n; return nil })
		if err != nil {
			return nil, fmt.Errorf("search %s: %w", table, err)
		}
	}
	return found, nil
}
