package devstack

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
)

// findPgBouncer returns the path of PgBouncer's program.
func findPgBouncer() (string, error) {
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		// Debian keeps it where only root's PATH leads.
		path, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		return "", fmt.Errorf(
			"PgBouncer is missing; on Debian: apt-get install --no-install-recommends pgbouncer libc-ares2: %w", err)
	}
	return path, nil
}

// pgBouncerConfig puts one database behind PgBouncer. It has fewer connections to PostgreSQL than a
// single process has to it, so that transactions of all processes change places.
const pgBouncerConfig = `[databases]
%[1]s = host=127.0.0.1 port=%[2]s dbname=%[1]s user=%[3]s password=%[4]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[5]d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 15
max_client_conn = 200
`

// startPgBouncer starts PgBouncer, if it is asked for, and gives the role the settings that PgBouncer does not pass on.
func (s *Stack) startPgBouncer(ctx context.Context) error {
	if !s.options.PgBouncer {
		return nil
	}
	program, err := findPgBouncer()
	if err != nil {
		return err
	}
	at, err := url.Parse(s.DatabaseURL())
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, at.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // every statement has its answer
	for _, statement := range pg.RoleSettings(at.User.Username(), database) {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}

	dir := filepath.Join(s.options.Dir, "pgbouncer")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	password, _ := at.User.Password()
	config := fmt.Sprintf(pgBouncerConfig, database, at.Port(), at.User.Username(), password, s.pgBouncerPort)
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil { // its user may be another
		return err
	}
	s.PgBouncer, err = Program{
		Name: "pgbouncer", Path: program, Args: []string{file}, Dir: dir, Log: s.Log("pgbouncer"),
		As: s.Postgres.RunAsServer, // it refuses to run as root
	}.Start()
	return err
}

// poolerEnvironment returns the settings that lead through PgBouncer.
func (s *Stack) poolerEnvironment() []string {
	u, err := url.Parse(s.DatabaseURL())
	if err != nil || !s.options.PgBouncer {
		return []string{"DATABASE_URL=" + s.DatabaseURL()}
	}
	u.Host = "127.0.0.1:" + strconv.Itoa(s.pgBouncerPort)
	return []string{
		"DATABASE_URL=" + u.String(), "CHECKOUT_DATABASE_POOLER=pgbouncer", "CHECKOUT_DATABASE_DIRECT_URL=" + s.DatabaseURL(),
	}
}
