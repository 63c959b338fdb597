package storage_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
)

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
		_, err = storage.OpenKeyless(t.Context(), storage.Options{URL: f.URL, Pooled: true})
		require.ErrorIs(t, err, pg.ErrRoleSettings)
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
