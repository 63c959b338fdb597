package service_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/service"
	"example.com/checkout/storage/pgtemp"
)

func TestLeanVisibility_TellsTheWayBack(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, func(context.Context, string) error { return nil })
	_, err := service.LeanVisibility(t.Context(), url)
	require.EqualError(t, err, "the table executions_visibility of Temporal is not there")

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), `
		CREATE TABLE executions_visibility (run_id text PRIMARY KEY, workflow_id text, Bool01 boolean, Text01 text);
		CREATE INDEX by_workflow_id ON executions_visibility (workflow_id);
		CREATE INDEX by_bool_01 ON executions_visibility (Bool01, (COALESCE(workflow_id, '')) DESC);
		CREATE INDEX by_text_01 ON executions_visibility USING hash (Text01)`)
	require.NoError(t, err)
	indexes := func() (all map[string]string) {
		rows, err := conn.Query(t.Context(), `
			SELECT json_object_agg(indexname, indexdef) FROM pg_indexes WHERE tablename = 'executions_visibility'`)
		require.NoError(t, err)
		all, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[map[string]string])
		require.NoError(t, err)
		return all
	}
	full := indexes()
	require.Len(t, full, 4)

	undo, err := service.LeanVisibility(t.Context(), url)
	require.NoError(t, err)
	require.Len(t, undo, 2)
	lean := indexes()
	require.Len(t, lean, 2)
	require.Contains(t, lean, "by_workflow_id")
	for _, statement := range undo {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	require.Equal(t, full, indexes())
}
