package pgtemp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

func TestTemplate_IsMadeOnceAndCopied(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	made := 0
	template := &pgtemp.Template{Name: "shop", Fill: func(ctx context.Context, server *pgtemp.Server) error {
		if made++; made == 1 {
			return errors.New("the first is not complete")
		}
		insert(t, server.URL("postgres"))
		return nil
	}}
	_, err := pgtemp.Start(t.Context(), pgtemp.Options{Dir: t.TempDir(), Template: template})
	require.ErrorContains(t, err, "the first is not complete")

	dir := t.TempDir()
	durable := start(t, pgtemp.Options{Dir: dir, Template: template})
	throwaway := start(t, pgtemp.Options{Throwaway: true, Template: template})
	require.Equal(t, 2, made, "an incomplete one is not kept, a complete one is")

	_, err = connect(t, durable.URL("postgres")).Exec(t.Context(), `CREATE TABLE own ()`)
	require.NoError(t, err)
	_, err = connect(t, throwaway.URL("postgres")).Exec(t.Context(), `CREATE TABLE own ()`)
	require.NoError(t, err, "copies share no table")
	requireKept(t, throwaway.URL("postgres"))

	durable.Kill()
	requireKept(t, start(t, pgtemp.Options{Dir: dir, Template: template}).URL("postgres"))
}
