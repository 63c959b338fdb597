package devstack

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// Databases are that of the service, and those of Temporal.
var Databases = []string{database, temporalDatabase, visibilityDatabase}

// Dump writes databases to files of their names in dir. What runs meanwhile is in it or not: to get
// several from one moment, let nothing write.
func (s *Stack) Dump(ctx context.Context, dir string, databases ...string) error {
	for _, name := range databases {
		err := s.runPostgres(ctx, "pg_dump", "--format=custom", "--compress=0", "--file="+filepath.Join(dir, name),
			"--dbname="+s.url(name))
		if err != nil {
			return err
		}
	}
	return nil
}

// RestoreDump replaces databases by the files that Dump wrote, and ends the connections to them.
func (s *Stack) RestoreDump(ctx context.Context, dir string, databases ...string) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is left to do
	for _, name := range databases {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return err
		}
		err := s.runPostgres(ctx, "pg_restore", "--create", "--exit-on-error", "--dbname="+s.url("postgres"),
			filepath.Join(dir, name))
		if err != nil {
			return err
		}
	}
	return nil
}

// runPostgres runs a program of PostgreSQL.
func (s *Stack) runPostgres(ctx context.Context, program string, args ...string) error {
	programs, err := EnsurePostgres(ctx, s.options.Out)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(programs, program), args...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, said)
	}
	return nil
}
