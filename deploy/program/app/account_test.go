package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestMain(m *testing.M) {
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}

var testKey = "sk_test_" + strings.Repeat("0123456789abcdef", 4)

// operator runs the commands for merchants and keys. DATABASE_URL is their only setting.
type operator struct {
	t           *testing.T
	db          storagetest.Database
	url         string
	environment []string // settings besides the database
}

func newOperator(t *testing.T) operator {
	t.Parallel()
	return newOperatorAlone(t)
}

// newOperatorAlone is newOperator for a test that is not parallel.
func newOperatorAlone(t *testing.T) operator {
	db := storagetest.New(t)
	return operator{t: t, db: db, url: db.URL}
}

func (o operator) run(args ...string) (out, notes string, err error) {
	var outBuffer, notesBuffer bytes.Buffer
	err = app.Main(o.t.Context(), args, append(o.environment, "DATABASE_URL="+o.url), &outBuffer, &notesBuffer)
	return outBuffer.String(), notesBuffer.String(), err
}

// must runs a call that must succeed, and returns its standard output.
func (o operator) must(args ...string) string {
	out, _, err := o.run(args...)
	require.NoError(o.t, err, args)
	return out
}

// refused runs a call that must fail without a change and without standard output.
func (o operator) refused(want string, args ...string) { _ = o.refusal(want, args...) }

// refusal is refused that returns the error.
func (o operator) refusal(want string, args ...string) error {
	out, notes, err := o.run(args...)
	require.ErrorContains(o.t, err, want, args)
	require.Empty(o.t, out+notes, args)
	return err
}

// wrong runs a wrong call: its error is one line without the key.
func (o operator) wrong(want string, args ...string) {
	err := o.refusal(want, args...)
	require.NotContains(o.t, err.Error(), testKey[8:24])
	require.NotContains(o.t, err.Error(), "\n", "one line")
	require.Equal(o.t, 2, app.ExitStatus(err))
}

// audited returns the entries of a merchant's audit log, the last first.
func (o operator) audited(merchantID string, mode checkout.Mode) []merchant.AuditEntry {
	owner := checkout.Owner{MerchantID: merchantID, Mode: mode}
	entries, err := o.store().AuditLog.AuditEntries(o.t.Context(), owner, pg.Page{Limit: 10})
	require.NoError(o.t, err)
	return entries
}

// withKeys returns the operator with the master keys too, which commands need that use a whole store.
func (o operator) withKeys() operator {
	o.environment = append(o.environment, "CHECKOUT_MASTER_KEYS="+o.db.MasterKeys, "CHECKOUT_LOG_LEVEL=error")
	return o
}

func (o operator) merchant() string {
	return strings.TrimSpace(o.must("merchant", "create", "--name", "Shop"))
}

// store returns a store as in the API process.
func (o operator) store() *storage.Store {
	return o.db.Open(o.t, 2)
}

// authenticate checks a key as the API does for each request.
func authenticate(t *testing.T, store *storage.Store, key string) (storage.Caller, error) {
	hash, ok := merchant.HashAPIKey(key)
	require.True(t, ok)
	rate := storage.Rate{PerSecond: 10, Burst: 10}
	caller, _, err := store.Merchants.Authenticate(t.Context(), hash, storage.RequestRead, storage.Rates{Test: rate, Live: rate})
	return caller, err
}

func decode[T any](t *testing.T, text string) (v T) {
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// words returns the words of a table, by line.
func words(table string) (lines [][]string) {
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// TestMain_SaysWhatIsWrongWithTheCall before a database or a file is asked.
func TestMain_SaysWhatIsWrongWithTheCall(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/wrong_calls.yaml")
	require.NoError(t, err)
	mer := checkout.NewID(checkout.PrefixMerchant)
	ids := strings.NewReplacer("‹merchant›", mer, "‹key›", checkout.NewID(checkout.PrefixAPIKey))
	type wrongCall struct {
		Call     []string
		Want     string
		settings []string
	}
	var calls []wrongCall
	require.NoError(t, yaml.Unmarshal([]byte(ids.Replace(string(text))), &calls))
	require.Greater(t, len(calls), 40)
	create, listen := []string{"key", "create", mer, "--mode", "test", "--label"}, []string{"listen", "--forward-to=http://127.0.0.1:3000"}
	const key = "CHECKOUT_API_KEY="
	o := operator{t: t, url: "postgres://u:secret@127.0.0.1:1/nothing"}
	for _, c := range append(calls, []wrongCall{
		{append(create, strings.Repeat("é", 101)), "--label must have at most 100 characters", nil},
		{append(create, "a\xff"), "--label must not have control or invisible characters", nil},
		{[]string{"key", "list", strings.ToUpper(mer)}, "not a valid id", nil},
		{[]string{"merchant", "create", "--name", "Shop", "--payout", "ETH=ethereum:" + strings.Repeat("a", 201)}, "the address must have at most 200 printable", nil},
		{[]string{"key", "revoke", testKey}, "not a valid id", nil},
		{listen, "CHECKOUT_API_KEY must be a test key", []string{key + "sk_live_" + testKey[8:]}},
		{append(listen, "--api", "http://api.example"), "--api (CHECKOUT_API_URL) must be https://", []string{key + testKey}},
		{append(listen, "--since", "monday"), `"--since" flag: must be a duration such as 10m`, []string{key + testKey}},
		{append(listen, "--api-key="+testKey), "unknown flag: --api-key; checkout listen --help explains", []string{key + testKey}},
		{append(listen, testKey), "too many arguments", []string{key + testKey}},
		{listen, "listen: CHECKOUT_API_KEY_FILE and CHECKOUT_API_KEY must not both be set", []string{key + testKey, "CHECKOUT_API_KEY_FILE=/secret"}},
	}...) {
		o.environment = c.settings
		o.wrong(c.Want, c.Call...)
	}
}

func TestAccounts_SayWhatIsWrongWithTheDatabase(t *testing.T) {
	t.Parallel()
	operator{t: t}.refused("DATABASE_URL is empty", "merchant", "list")
	operator{t: t, url: "mysql://u:secret@h/d"}.refused("DATABASE_URL must begin with postgres://", "merchant", "list")
	operator{t: t, url: pgtemp.ForTest(t, nil)}.refused("run checkout setup", "merchant", "list")
	err := operator{t: t, url: "postgres://u:secret@127.0.0.1:1/nothing"}.refusal("open database", "merchant", "list")
	require.NotContains(t, err.Error(), "secret")
	require.Equal(t, 1, app.ExitStatus(err), "the call was right")
}

// brokenPipe is a standard output that fails every write.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestKeyCreate_TellsWhichKeyToRevokeWhenItCouldNotBeShown(t *testing.T) {
	o := newOperator(t)
	mer := o.merchant()
	err := app.Main(t.Context(), []string{"key", "create", mer, "--mode", "test", "--label", "a"}, []string{"DATABASE_URL=" + o.url}, brokenPipe{}, &bytes.Buffer{})
	require.ErrorContains(t, err, "the key could not be shown; revoke "+decode[[]listedKey](t, o.must("key", "list", mer, "--json"))[0].ID)
}

// Not parallel: the test replaces the log of the process.
func TestKeyCreate_TheKeyIsInNoLogAndNotInTheDatabase(t *testing.T) {
	o := newOperatorAlone(t)
	mer := o.merchant()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	out, notes, err := o.run("key", "create", mer, "--mode", "test", "--label", "a")
	require.NoError(t, err)
	key := strings.TrimSpace(out)
	list := o.must("key", "list", mer, "--json")
	for _, text := range []string{log.String(), notes, list, o.must("key", "list", mer)} {
		require.NotContains(t, text, key[8:40])
	}
	require.Equal(t, key[len(key)-4:], decode[[]listedKey](t, list)[0].Last4)
}

// A script must not take a command for done that was stopped while it waited.
func TestMain_ACommandThatIsStoppedWhileItWaitsFails(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	environment := []string{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "CHECKOUT_MASTER_KEYS=" + storagetest.New(t).MasterKeys}
	var out, notes bytes.Buffer
	err := app.Main(ctx, []string{"treasury", "freeze", checkout.NewID(checkout.PrefixTreasury)}, environment, &out, &notes)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, app.ExitStatus(err))
	for _, name := range []string{"API", "PAGE", "DASHBOARD", "HEALTH"} { // the local stack may have the usual ports
		environment = append(environment, "CHECKOUT_"+name+"_ADDRESS=127.0.0.1:0")
	}
	require.NoError(t, app.Main(ctx, []string{"api"}, environment, &out, &notes), "a process ends when it is stopped")
}
