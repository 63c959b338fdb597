package storage_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// fixture is a store on a database of its own with one merchant.
type fixture struct {
	*storage.Store
	storagetest.Database
	merchant merchant.Merchant
}

// newFixture returns the world of a test. The test runs beside others.
func newFixture(t *testing.T) fixture {
	t.Parallel()
	return newSerialFixture(t)
}

// newSerialFixture is for a benchmark, and for a test with one world after another.
func newSerialFixture(t testing.TB) fixture {
	db := storagetest.New(t)
	f := fixture{db.Open(t, 0), db, merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard",
		FeeBasisPoints: merchant.DefaultFeeBasisPoints, PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}}
	require.NoError(t, f.Merchants.CreateMerchant(t.Context(), f.merchant, checkout.ModeTest, []merchant.PayoutAddress{
		{Currency: money.USDC, Network: "ethereum", Address: "0xabc"},
	}))
	return f
}

func (f fixture) other(t *testing.T, mode checkout.Mode) merchant.Merchant {
	m := f.merchant
	m.ID = checkout.NewID(checkout.PrefixMerchant)
	require.NoError(t, f.Merchants.CreateMerchant(t.Context(), m, mode, nil))
	return m
}

// query returns the one value that sql selects.
func (f fixture) query(t *testing.T, sql string, args ...any) any {
	return storagetest.Value[any](t, f.Database, sql, args...)
}

func (f fixture) publishTest(t *testing.T, e webhook.Endpoint, typ webhook.EventType) (webhook.Event, checkout.Ref) {
	event, ref, err := f.Webhooks.PublishTest(t.Context(), storage.TestEvent{Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID("test"), Type: typ, Data: func(time.Time) any { return map[string]string{"a": "b"} }})
	require.NoError(t, err)
	return event, e.Owner.Ref(ref.ID)
}

func (f fixture) read(t *testing.T, ref checkout.Ref) webhook.Delivery {
	return must.Get(f.Webhooks.Delivery(t.Context(), ref))(t)
}

func (f fixture) begin(t *testing.T, ref checkout.Ref, runID string, number int) storage.AttemptDecision {
	require.NoError(t, f.Webhooks.HurryAttempt(t.Context(), ref, runID, time.Time{}))
	return must.Get(f.Webhooks.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: runID, Try: number}))(t)
}

func (f fixture) newSession() storage.NewSession {
	return storage.NewSession{
		Session: checkout.Session{
			Ref:    f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixSession)),
			Amount: 1050, Currency: money.EUR, PayoutCurrency: money.USDC, MaxAttempts: 3,
			Metadata: json.RawMessage(`{"b":1.50,"a":"x"}`),
		},
		Lifetime: time.Hour,
	}
}

func started(context.Context, checkout.Session) error { return nil }

func (f fixture) create(t testing.TB, n storage.NewSession) checkout.Session {
	return must.Get(f.Sessions.CreateSession(t.Context(), n, started))(t)
}

func (f fixture) beginPayment(t *testing.T, s checkout.Session) string {
	method := checkout.PaymentMethod{Type: "card", Last4: "4242"}
	return storagetest.Begin(t, f.Store, s.Ref, storage.NewPayment{Method: method}, "")
}

func (f fixture) record(t *testing.T, s checkout.Session, id string, result checkout.ChargeResult) {
	_, _, err := f.Sessions.RecordCharge(t.Context(), s.Ref, id, result)
	require.NoError(t, err)
}

func (f fixture) pay(t *testing.T, s checkout.Session, result checkout.ChargeResult) (string, storage.FollowUp) {
	id := f.beginPayment(t, s)
	return id, storagetest.Finish(t, f.Store, s.Ref, id, result)
}

func (f fixture) endpoint(t *testing.T, url string, events ...webhook.EventType) webhook.Endpoint {
	e, err := f.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixEndpoint)),
		URL: url, Events: events, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	})
	require.NoError(t, err)
	return e
}

func (f fixture) setStatus(t *testing.T, e webhook.Endpoint, status webhook.EndpointStatus) webhook.Endpoint {
	return must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{Status: &status}))(t)
}

// end gives a delivery its final status, in whatever run.
func (f fixture) end(t *testing.T, ref checkout.Ref, status webhook.DeliveryStatus) {
	must.Get(f.Webhooks.EndDelivery(t.Context(), ref, "", status))(t)
}

// strangers are owners who must find nothing of the merchant's test mode.
func (f fixture) strangers() []checkout.Owner {
	return []checkout.Owner{
		f.merchant.Owner(checkout.ModeLive), {MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: checkout.ModeTest},
	}
}

// foreign returns what is not to be found by ref: in the other mode, of another merchant, and of another id.
func foreign(ref checkout.Ref) []checkout.Ref {
	return []checkout.Ref{
		checkout.Owner{MerchantID: ref.MerchantID, Mode: ref.Mode.Other()}.Ref(ref.ID),
		checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: ref.Mode}.Ref(ref.ID),
		ref.Owner.Ref(checkout.NewID(checkout.PrefixDelivery)),
	}
}

// seesCommits notes with which synchronous_commit rows of the tables are written.
func (f fixture) seesCommits(t *testing.T, tables ...string) {
	f.Exec(t, `CREATE TABLE seen (written text, value text)`)
	f.Exec(t, `CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit')); RETURN NEW; END $$`)
	for _, table := range tables {
		f.Exec(t, `CREATE TRIGGER see AFTER INSERT OR UPDATE ON `+table+` FOR EACH ROW EXECUTE FUNCTION see()`)
	}
}

func TestOpen_RefusesWrongMasterKey(t *testing.T) {
	f := newFixture(t)
	for name, text := range map[string]string{
		"another key under the same id": pg.NewMasterKey("k1"),
		"the sealing key is missing":    pg.NewMasterKey("k2"),
	} {
		require.ErrorIs(t, must.Err(storagetest.Database{URL: f.URL, MasterKeys: text}.TryOpen(t, 0)), pg.ErrWrongMasterKey, name)
	}
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM master_key`), "a refused process leaves nothing behind")
}

// newerKey opens a second store on the database of f. Its first key is unknown to f.
func (f fixture) newerKey(t *testing.T) fixture {
	f.MasterKeys = pg.NewMasterKey("k2") + "," + f.MasterKeys
	f.Store = f.Open(t, 0)
	return f
}

func TestUnavailable_PostgreSQLThatLetsNobodyIn(t *testing.T) {
	f := newFixture(t)
	at := must.Get(url.Parse(f.URL))(t)
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
	admin := storagetest.At(t, elsewhere.String()).Connect(t)
	quoted := pgx.Identifier{name}.Sanitize()
	must.Get(admin.Exec(t.Context(), `ALTER DATABASE `+quoted+` ALLOW_CONNECTIONS false`))(t)
	must.Get(admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name))(t)
	var err error
	for range 30 { // the pool first finds its open connections broken
		if err = f.Ping(t.Context()); err != nil && strings.Contains(err.Error(), "55000") {
			break
		}
	}
	require.ErrorContains(t, err, "55000")
	require.True(t, pg.Unavailable(err))
	require.False(t, pg.Misconfigured(err))
	must.Get(admin.Exec(t.Context(), `ALTER DATABASE `+quoted+` ALLOW_CONNECTIONS true`))(t)
}

func TestOpen_RefusesASchemaThatIsTooOld(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, nil)
	db := storagetest.At(t, url)
	refused := func(when string) {
		_, err := db.TryOpen(t, 0)
		require.ErrorIs(t, err, pg.ErrSchemaTooOld, when)
		require.ErrorContains(t, err, "run checkout setup")
		require.ErrorIs(t, must.Err(storage.OpenKeyless(t.Context(), storage.Options{URL: url})), pg.ErrSchemaTooOld, when)
	}
	refused("there is none")
	require.NoError(t, storage.Migrate(t.Context(), url))
	db.Exec(t, `DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`)
	refused("the newest migration is missing")
	db.Exec(t, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	_, err := db.TryOpen(t, 0)
	require.NoError(t, err, "a newer schema fits")
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
	f := newFixture(t)
	f.seesCommits(t, "merchant")
	for set, want := range map[string]string{"off": "on", "local": "local", "on": "on", "remote_apply": "remote_apply"} {
		f.Exec(t, `DELETE FROM seen`)
		f.Exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = `+set+`', current_database()); END $$`)
		f.Store = f.Open(t, 0)
		f.other(t, checkout.ModeTest)
		require.Equal(t, want, f.query(t, `SELECT value FROM seen`), set)
	}
}

// PgBouncer passes no settings on. So the role must have them, and the error says how.
func TestOpen_BehindPgBouncerTheRoleMustHaveTheSettings(t *testing.T) {
	f := newFixture(t)
	keys := must.Get(pg.ParseKeyring(f.MasterKeys))(t)
	open := func() error {
		s, err := storage.Open(t.Context(), storage.Options{URL: f.URL, Pooled: true, Keys: keys})
		if err == nil {
			s.Close()
		}
		return err
	}
	at := must.Get(url.Parse(f.URL))(t)
	statements := pg.RoleSettings("postgres", strings.TrimPrefix(at.Path, "/"))
	require.Len(t, statements, 4)
	for i, statement := range statements {
		err := open()
		require.ErrorIs(t, err, pg.ErrRoleSettings, "%d settings are there", i)
		require.ErrorContains(t, err, statement)
		require.True(t, pg.Misconfigured(err))
		require.ErrorIs(t, must.Err(storage.OpenKeyless(t.Context(), storage.Options{URL: f.URL, Pooled: true})), pg.ErrRoleSettings)
		f.Exec(t, statement)
	}
	require.NoError(t, open())
}

// The role's time-outs are for the service: a migration may take longer.
func TestMigrate_IsNotCutShortByTheRolesTimeouts(t *testing.T) {
	t.Parallel()
	at := pgtemp.ForTest(t, nil)
	conn := must.Get(pgx.Connect(t.Context(), at))(t)
	_, err := conn.Exec(t.Context(), `ALTER ROLE postgres IN DATABASE `+pgx.Identifier{conn.Config().Database}.Sanitize()+
		` SET statement_timeout = '1ms'`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, storage.Migrate(t.Context(), at))
}

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}

// TestSetCell_OnlyBeforeTheFirstMerchant does not run beside other tests: the cell belongs to the whole process.
func TestSetCell_OnlyBeforeTheFirstMerchant(t *testing.T) { //nolint:paralleltest // see above
	t.Cleanup(func() { checkout.SetCell(checkout.FirstCell) })
	url := pgtemp.ForTest(t, storage.Migrate)
	open := func() *storage.Keyless {
		accounts := must.Get(storage.OpenKeyless(t.Context(), storage.Options{URL: url}))(t)
		t.Cleanup(accounts.Close)
		return accounts
	}
	accounts := open()
	require.ErrorContains(t, accounts.SetCell(t.Context(), "0i"), `the cell "0i" must be two of the characters`)
	require.NoError(t, accounts.SetCell(t.Context(), "7z"))

	accounts = open()
	merchant := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Seven", Plan: "standard", PaymentAttempts: 3}
	require.Equal(t, "7z", merchant.ID[len("mer_")+10:][:2])
	require.NoError(t, accounts.Merchants.CreateMerchant(t.Context(), merchant, checkout.ModeTest, nil))
	require.NoError(t, accounts.SetCell(t.Context(), "7z"), "the same again")
	require.ErrorContains(t, accounts.SetCell(t.Context(), "00"), "the cell cannot change: a merchant is there")
}

// TestMigrate_RefusesADatabaseOfBefore1: its tables are not those of version 1.0.0, and nothing before was released.
func TestMigrate_RefusesADatabaseOfBefore1(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, nil)
	storagetest.At(t, url).Exec(t, `
		CREATE TABLE goose_db_version (id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, version_id bigint NOT NULL,
			is_applied boolean NOT NULL, tstamp timestamp NOT NULL DEFAULT now());
		INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, true), (1, true), (101, true)`)

	err := storage.Migrate(t.Context(), url)

	require.ErrorContains(t, err, "a build before 1.0.0 made this database: give the service an empty one")
}
