package pgtemp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CreateDatabase creates the database name, as a copy of template unless template is empty. Without
// a template an existing database is fine; with a template it is an error. It waits some seconds
// for the template's last connections to close.
func (s *Server) CreateDatabase(ctx context.Context, name, template string) error {
	return s.query(ctx, func(conn *pgx.Conn) error { return createDatabase(ctx, conn, name, template) })
}

// query runs do on a connection to the database postgres.
func (s *Server) query(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

// An executor is a connection or a pool.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func createDatabase(ctx context.Context, conn executor, name, template string) error {
	sql := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
	if template != "" { // copied as files, which takes half as long as page by page through the WAL
		sql += " TEMPLATE " + pgx.Identifier{template}.Sanitize() + " STRATEGY file_copy"
	}
	for began := time.Now(); ; {
		_, err := conn.Exec(ctx, sql)
		switch code := sqlState(err); {
		case err == nil, template == "" && code == "42P04": // duplicate_database
			return nil
		// object_in_use: a backend lives a moment longer than its connection
		case code == "55006" && time.Since(began) < 5*time.Second:
			if err := Pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		default:
			return fmt.Errorf("create database %s: %w", name, err)
		}
	}
}

// sqlState returns the five-character code of a PostgreSQL error, "" for any other error.
func sqlState(err error) string {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
