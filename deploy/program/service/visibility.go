package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// neededIndexes are the indexes of Temporal's visibility table on PostgreSQL that this service's queries
// use, and an operator's searches in Temporal's UI: by time, id, type, status, build, schedule, the
// first run of a family, and the five search attributes.
var neededIndexes = []string{
	"executions_visibility_pkey", "default_idx", "by_execution_time", "by_workflow_id", "by_workflow_type",
	"by_status", "by_root_workflow_id", "by_temporal_worker_deployment_version", "by_temporal_scheduled_by_id",
	"by_keyword_01", "by_keyword_02", "by_keyword_03", "by_keyword_04", "by_keyword_05",
}

// LeanVisibility drops the indexes of Temporal's visibility table that nobody here uses, in the database
// at url, a postgres:// URL. It returns the statements that make them again. Each start and each end of a
// run writes to every index. Temporal works while it runs; a repeat does the rest.
func LeanVisibility(ctx context.Context, url string) (undo []string, err error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL of Temporal's visibility database is malformed") // err may quote the password
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open Temporal's visibility database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// CollectRows returns the error.
	rows, _ := conn.Query(ctx, `
		SELECT indexname, indexdef FROM pg_indexes
		WHERE tablename = 'executions_visibility' AND schemaname = current_schema() ORDER BY indexname`)
	type index struct{ Name, Definition string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the table executions_visibility of Temporal is not there")
	}
	for _, i := range all {
		if slices.Contains(neededIndexes, i.Name) {
			continue
		}
		if _, err := conn.Exec(ctx, "DROP INDEX CONCURRENTLY "+pgx.Identifier{i.Name}.Sanitize()); err != nil {
			return undo, fmt.Errorf("drop %s: %w", i.Name, err)
		}
		undo = append(undo, i.Definition+";")
	}
	return undo, nil
}
