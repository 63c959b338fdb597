package api

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestGeneratedClient_SendsAndReadsAmountsToTheCent generates a client from the served document and
// uses it with this front end. Most Go programmers use the same generator.
func TestGeneratedClient_SendsAndReadsAmountsToTheCent(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.handler.ServeHTTP(w, r) }))
	defer server.Close()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../deploy/tools/goclient")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), f.fetch("/v1/openapi.yaml").Body.Bytes(), 0o600))

	goIn(t, dir, "tool", "oapi-codegen", "-config", "config.yaml", "openapi.yaml")
	// With -trimpath the compiled client does not depend on the directory, so Go's cache has it the next time.
	said := goIn(t, dir, "run", "-trimpath", ".", server.URL, f.merchant.testKey)
	require.Equal(t, "300000.33 300000.33\n999999.99 999999.99\n0.50 0.50\n10.10 10.10\n", said)

	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), `SELECT amount FROM checkout_session ORDER BY id`)
	require.NoError(t, err)
	charged, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.Equal(t, []int64{300000_33, 999999_99, 50, 10_10}, charged)
}

// goIn runs the go command in dir and returns what it wrote to standard output.
func goIn(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "go", arguments...) // #nosec G204 -- of this file
	c.Dir = dir
	var out, wrong bytes.Buffer
	c.Stdout, c.Stderr = &out, &wrong
	require.NoError(t, c.Run(), "go %v: %s", arguments, wrong.String())
	return out.String()
}
