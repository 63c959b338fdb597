package devstack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/checkout/deploy/program/service"
	"example.com/checkout/storage/pgtemp"
)

// schemas are the versioned schemas in the SQL tool, by database.
var schemas = []struct{ database, name string }{
	{temporalDatabase, "postgresql/v12/temporal"},
	{visibilityDatabase, "postgresql/v12/visibility"},
}

// ensureSchema creates Temporal's two databases if they are missing, and updates the tables of existing ones.
func ensureSchema(ctx context.Context, program string, admin *url.URL) error {
	conn, err := pgx.Connect(ctx, admin.String())
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, schema := range schemas {
		var there bool
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, schema.database).
			Scan(&there)
		if err == nil && there {
			err = runSQLTool(ctx, program, admin, schema.database, "update-schema", "--schema-name", schema.name)
		} else if err == nil {
			err = createDatabase(ctx, conn, program, admin, schema.database, schema.name)
		}
		if err != nil {
			return fmt.Errorf("database %s: %w", schema.database, err)
		}
	}
	visibility := *admin
	visibility.Path = "/" + visibilityDatabase
	_, err = service.LeanVisibility(ctx, visibility.String())
	return err
}

// createDatabase makes a database with its tables. The database gets its name only when it is
// complete: after a kill, the tool cannot repeat every statement of a half-made schema.
func createDatabase(
	ctx context.Context, conn *pgx.Conn, program string, admin *url.URL, database, schema string,
) error {
	unfinished := database + "_unfinished"
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + unfinished + " WITH (FORCE)", "CREATE DATABASE " + unfinished,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}

	for _, args := range [][]string{
		{"setup-schema", "--version", "0.0"}, // the table of versions
		{"update-schema", "--schema-name", schema},
	} {
		if err := runSQLTool(ctx, program, admin, unfinished, args...); err != nil {
			return err
		}
	}
	if err := renameInVersions(ctx, conn.Config(), unfinished, database); err != nil {
		return err
	}

	// The tool's last connection may live a moment longer than the tool.
	for {
		_, err := conn.Exec(ctx, "ALTER DATABASE "+unfinished+" RENAME TO "+database)
		const objectInUse = "55006"
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != objectInUse {
			return err
		}
		if err := pgtemp.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// renameInVersions changes the database's name in the tool's table of versions.
func renameInVersions(ctx context.Context, config *pgx.ConnConfig, database, newName string) error {
	config.Database = database
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `UPDATE schema_version SET db_name = $1 WHERE db_name = $2`, newName, database)
	return err
}

// runSQLTool runs Temporal's SQL tool. It passes the password in the environment, because every
// user can read a command line.
func runSQLTool(ctx context.Context, program string, admin *url.URL, database string, args ...string) error {
	server, err := pgconn.ParseConfig(admin.String()) // the tool takes one server: the first
	if err != nil {
		return errors.New("malformed URL of PostgreSQL") // err would show parts of it
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"sql"}, args...)...)
	cmd.Env = append(os.Environ(),
		"SQL_PLUGIN="+sqlPlugin, "SQL_HOST="+server.Host, "SQL_PORT="+strconv.Itoa(int(server.Port)), "SQL_USER="+server.User,
		"SQL_PASSWORD="+server.Password, "SQL_DATABASE="+database, "SQL_CONNECT_ATTRIBUTES="+admin.RawQuery,
	)
	if said, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("%s: %w:\n%s", args[0], err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return nil
}
