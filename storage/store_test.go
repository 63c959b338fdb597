package storage_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// fixture is a store on a database of its own with one merchant.
type fixture struct {
	*storage.Store
	url       string
	masterKey string
	merchant  checkout.Merchant
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	url := pgtemp.ForTest(t, storage.Migrate)
	masterKey := pg.NewMasterKey("k1")
	keys, err := pg.ParseKeyring(masterKey)
	require.NoError(t, err)
	store, err := storage.Open(t.Context(), storage.Options{URL: url, Keys: keys})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	m := checkout.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard",
		FeeBasisPoints: checkout.DefaultFeeBasisPoints, PaymentAttempts: checkout.DefaultPaymentAttempts, OrderIDGuard: true,
	}
	require.NoError(t, store.CreateMerchant(t.Context(), m, checkout.ModeTest, []checkout.PayoutAddress{
		{Currency: checkout.USDC, Network: "ethereum", Address: "0xabc"},
	}))
	return fixture{store, url, masterKey, m}
}

// query returns the one value that sql selects.
func (f fixture) query(t *testing.T, sql string, args ...any) any {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var got any
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&got))
	return got
}

// exec changes rows without the store.
func (f fixture) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// publishTest sends a test event and returns its delivery.
func (f fixture) publishTest(t *testing.T, e webhook.Endpoint, typ webhook.EventType) (webhook.Event, checkout.Ref) {
	t.Helper()
	event, ref, err := f.PublishTest(t.Context(), storage.TestEvent{Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID("test"), Type: typ, Data: func(time.Time) any { return map[string]string{"a": "b"} }})
	require.NoError(t, err)
	return event, e.Owner.Ref(ref.ID)
}

func (f fixture) read(t *testing.T, ref checkout.Ref) webhook.Delivery {
	t.Helper()
	d, err := f.Delivery(t.Context(), ref)
	require.NoError(t, err)
	return d
}

func (f fixture) begin(t *testing.T, ref checkout.Ref, runID string, number int) storage.AttemptDecision {
	t.Helper()
	require.NoError(t, f.HurryAttempt(t.Context(), ref, runID, time.Time{}))
	out, err := f.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: runID, Try: number})
	require.NoError(t, err)
	return out
}

func (f fixture) newSession() storage.NewSession {
	return storage.NewSession{
		Session: checkout.Session{
			Ref:    f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixSession)),
			Amount: 1050, Currency: checkout.EUR, PayoutCurrency: checkout.USDC, MaxAttempts: 3,
			Metadata: json.RawMessage(`{"b":1.50,"a":"x"}`),
		},
		Lifetime: time.Hour,
	}
}

func started(context.Context, checkout.Session) error { return nil }

func (f fixture) create(t testing.TB, n storage.NewSession) checkout.Session {
	t.Helper()
	s, err := f.CreateSession(t.Context(), n, started)
	require.NoError(t, err)
	return s
}

func ref(s checkout.Session) checkout.Ref {
	return s.Ref
}

// beginPayment creates a payment and marks it as in flight.
func (f fixture) beginPayment(t *testing.T, s checkout.Session) string {
	t.Helper()
	id := checkout.NewID(checkout.PrefixTransaction)
	require.NoError(t, f.CreatePayment(t.Context(), storage.NewPayment{
		ID: id, SessionID: s.ID, CardToken: "tok_1", Method: checkout.PaymentMethod{Type: "card", Last4: "4242"},
	}))
	_, err := f.BeginPayment(t.Context(), ref(s), id, checkout.Quote{Rate: checkout.MustRate("1.08")}, id)
	require.NoError(t, err)
	return id
}

// record stores an answer of the card network.
func (f fixture) record(t *testing.T, s checkout.Session, id string, result checkout.ChargeResult) {
	t.Helper()
	_, _, err := f.RecordCharge(t.Context(), ref(s), id, result)
	require.NoError(t, err)
}

// pay decides a payment.
func (f fixture) pay(t *testing.T, s checkout.Session, result checkout.ChargeResult) (string, storage.Settlement) {
	t.Helper()
	id := f.beginPayment(t, s)
	f.record(t, s, id, result)
	got, err := f.FinishPayment(t.Context(), ref(s), id)
	require.NoError(t, err)
	return id, got
}

func (f fixture) endpoint(t *testing.T, url string, events ...webhook.EventType) webhook.Endpoint {
	t.Helper()
	e, err := f.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixEndpoint)),
		URL: url, Events: events, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	})
	require.NoError(t, err)
	return e
}

func TestOpen_RefusesWrongMasterKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, text := range map[string]string{
		"another key under the same id": pg.NewMasterKey("k1"),
		"the sealing key is missing":    pg.NewMasterKey("k2"),
	} {
		keys, err := pg.ParseKeyring(text)
		require.NoError(t, err)
		_, err = storage.Open(t.Context(), storage.Options{URL: f.url, Keys: keys})
		require.ErrorIs(t, err, pg.ErrWrongMasterKey, name)
	}
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM master_key`), "a refused process leaves nothing behind")
}

// newerKey opens a second store on the database of f. Its first key is unknown to f.
func (f fixture) newerKey(t *testing.T) fixture {
	t.Helper()
	keys, err := pg.ParseKeyring(pg.NewMasterKey("k2") + "," + f.masterKey)
	require.NoError(t, err)
	f.Store, err = storage.Open(t.Context(), storage.Options{URL: f.url, Keys: keys})
	require.NoError(t, err)
	t.Cleanup(f.Store.Close)
	return f
}

func TestUnavailable_PostgreSQLThatLetsNobodyIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at, err := url.Parse(f.url)
	require.NoError(t, err)
	name := strings.TrimPrefix(at.Path, "/")
	other := func(change func(*url.URL)) error {
		elsewhere := *at
		change(&elsewhere)
		conn, err := pgx.Connect(t.Context(), elsewhere.String())
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err
	}
	unknownDatabase := other(func(u *url.URL) { u.Path = "/nowhere" })
	require.True(t, pg.Unavailable(unknownDatabase), "%v", unknownDatabase)
	require.True(t, pg.Misconfigured(unknownDatabase), "at the start it is a wrong setting")
	unknownRole := other(func(u *url.URL) { u.User = url.UserPassword("nobody_at_all", "x") })
	require.True(t, pg.Unavailable(unknownRole), "%v", unknownRole)
	require.True(t, pg.Misconfigured(unknownRole))

	// The administrator connects to another database: the next statement closes this one to everybody.
	elsewhere := *at
	elsewhere.Path = "/postgres"
	admin, err := pgx.Connect(t.Context(), elsewhere.String())
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	quoted := pgx.Identifier{name}.Sanitize()
	_, err = admin.Exec(t.Context(), `ALTER DATABASE `+quoted+` ALLOW_CONNECTIONS false`)
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	require.NoError(t, err)
	for range 30 { // the pool first finds its open connections broken
		if err = f.Ping(t.Context()); err != nil && strings.Contains(err.Error(), "55000") {
			break
		}
	}
	require.ErrorContains(t, err, "55000")
	require.True(t, pg.Unavailable(err))
	require.False(t, pg.Misconfigured(err))
	_, err = admin.Exec(t.Context(), `ALTER DATABASE `+quoted+` ALLOW_CONNECTIONS true`)
	require.NoError(t, err)
}

func TestOpen_RefusesASchemaThatIsTooOld(t *testing.T) {
	t.Parallel()
	keys, err := pg.ParseKeyring(pg.NewMasterKey("k1"))
	require.NoError(t, err)
	url := pgtemp.ForTest(t, nil)
	refused := func(when string) {
		t.Helper()
		_, err := storage.Open(t.Context(), storage.Options{URL: url, Keys: keys})
		require.ErrorIs(t, err, pg.ErrSchemaTooOld, when)
		require.ErrorContains(t, err, "run checkout setup")
		_, err = storage.OpenAccounts(t.Context(), storage.Options{URL: url})
		require.ErrorIs(t, err, pg.ErrSchemaTooOld, when)
	}
	refused("there is none")
	require.NoError(t, storage.Migrate(t.Context(), url))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	versions := func(statement string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	versions(`DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`)
	refused("the newest migration is missing")
	versions(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	store, err := storage.Open(t.Context(), storage.Options{URL: url, Keys: keys})
	require.NoError(t, err, "a newer schema fits")
	store.Close()
}

func TestMigrate_TwoAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, nil)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- storage.Migrate(context.Background(), url) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

// With synchronous_commit off, a crash of PostgreSQL loses answered commits: a charge, a payout, a
// session that the merchant has seen.
func TestOpen_CommitsForGoodWhateverTheDatabaseIsSetTo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `CREATE TABLE seen (value text)`)
	f.exec(t, `CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$`)
	f.exec(t, `CREATE TRIGGER see BEFORE INSERT ON merchant FOR EACH ROW EXECUTE FUNCTION see()`)
	keys, err := pg.ParseKeyring(pg.NewMasterKey("k1"))
	require.NoError(t, err)
	f.exec(t, `DELETE FROM master_key`)
	for set, want := range map[string]string{"off": "on", "local": "local", "on": "on", "remote_apply": "remote_apply"} {
		f.exec(t, `DELETE FROM seen`)
		f.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = `+set+`', current_database()); END $$`)
		store, err := storage.Open(t.Context(), storage.Options{URL: f.url, Keys: keys})
		require.NoError(t, err)
		m := f.merchant
		m.ID = checkout.NewID(checkout.PrefixMerchant)
		require.NoError(t, store.CreateMerchant(t.Context(), m, checkout.ModeTest, nil))
		store.Close()
		require.Equal(t, want, f.query(t, `SELECT value FROM seen`), set)
	}
}
