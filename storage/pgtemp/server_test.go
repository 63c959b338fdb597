package pgtemp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

// parentDir makes the test binary a process that starts a server in this directory and waits to be killed.
const parentDir = "PGTEMP_TEST_PARENT_DIR"

// countOfPorts makes the test binary a process that prints as many ports of FreePorts, and keeps them until its input
// ends.
const countOfPorts = "PGTEMP_TEST_PORTS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDir); dir != "" {
		server, err := pgtemp.Start(context.Background(), pgtemp.Options{Dir: dir})
		if err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString(strconv.Itoa(server.PID()) + "\n")
		select {}
	}
	if count, err := strconv.Atoi(os.Getenv(countOfPorts)); err == nil {
		ports, err := pgtemp.FreePorts(count)
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(ports)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	pgtemp.RunInParallel()
	os.Exit(m.Run())
}

// empty spares a test initdb, which takes seconds.
var empty = &pgtemp.Template{Name: "empty"}

func start(t *testing.T, o pgtemp.Options) *pgtemp.Server {
	server, err := pgtemp.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	return server
}

func connect(t *testing.T, url string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
	return conn
}

func insert(t *testing.T, url string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `CREATE TABLE note (text text); INSERT INTO note VALUES ('kept')`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func requireKept(t *testing.T, url string) {
	var text string
	require.NoError(t, connect(t, url).QueryRow(t.Context(), `SELECT text FROM note`).Scan(&text))
	require.Equal(t, "kept", text)
}

// TestStart_TheLifeOfADirectory: each step finds the directory as the step before has left it.
func TestStart_TheLifeOfADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg")
	first := start(t, pgtemp.Options{Dir: dir, Template: empty})
	url := first.URL("postgres")
	insert(t, url)

	t.Run("durable and private", func(t *testing.T) {
		conn := connect(t, url)
		for setting, want := range map[string]string{
			"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "300",
			"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8", "TimeZone": "UTC",
		} {
			var got string
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
			require.Equal(t, want, got, setting)
		}

		info, err := os.Stat(filepath.Join(dir, "password"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		config.Password = "guess"
		_, err = pgx.ConnectConfig(t.Context(), config)
		require.ErrorContains(t, err, "password authentication failed")
	})

	t.Run("in use", func(t *testing.T) {
		_, err := pgtemp.Start(t.Context(), pgtemp.Options{Dir: dir, Template: empty})
		require.EqualError(t, err, "start PostgreSQL: "+dir+": in use by another process")
	})

	t.Run("stopped, then killed", func(t *testing.T) {
		require.NoError(t, first.Stop())
		require.NoError(t, first.Stop(), "a second Stop does nothing")
		second := start(t, pgtemp.Options{Dir: dir, Port: first.Port()})
		require.Equal(t, url, second.URL("postgres"), "same port and password")
		requireKept(t, url)

		lockFile := filepath.Join(dir, "data", "postmaster.pid")
		content, err := os.ReadFile(lockFile)
		require.NoError(t, err)
		second.Kill()

		// As after a reboot: the process id now belongs to another program.
		other := exec.Command("sleep", "600")
		require.NoError(t, other.Start())
		defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
		stale := strings.Replace(string(content), strconv.Itoa(second.PID()), strconv.Itoa(other.Process.Pid), 1)
		require.NotEqual(t, string(content), stale)
		require.NoError(t, os.WriteFile(lockFile, []byte(stale), 0o600))
		requireKept(t, start(t, pgtemp.Options{Dir: dir}).URL("postgres"))
	})

	// A container may forbid user namespaces, in which root's servers run. Then a cluster belongs to the user postgres,
	// and goes on belonging to it where they are permitted.
	t.Run("of the user postgres", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root starts servers as somebody else")
		}
		postgres, err := user.Lookup("postgres") // Debian's package makes it
		require.NoError(t, err)
		uid := number(t, postgres.Uid)
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, uid, -1))
		}))
		for parent := filepath.Dir(dir); parent != os.TempDir(); parent = filepath.Dir(parent) {
			require.NoError(t, os.Chmod(parent, 0o755)) // it must get in
		}

		server := start(t, pgtemp.Options{Dir: dir})
		requireKept(t, server.URL("postgres"))
		process, err := os.Stat("/proc/" + strconv.Itoa(server.PID()))
		require.NoError(t, err)
		require.EqualValues(t, uid, process.Sys().(*syscall.Stat_t).Uid)
	})
}

func TestKill_ThenStartRecoversWhileABackendStillRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := pgtemp.Start(t.Context(), pgtemp.Options{Dir: dir, Template: empty})
	require.NoError(t, err)
	insert(t, first.URL("postgres"))
	// This backend is busy, so for a second it does not notice that its postmaster is gone.
	busy := connect(t, first.URL("postgres"))
	_, err = busy.Exec(t.Context(), `
		CREATE FUNCTION compute() RETURNS void LANGUAGE plpgsql AS $$
		DECLARE began timestamptz := clock_timestamp();
		BEGIN WHILE clock_timestamp() < began + interval '1 s' LOOP END LOOP; END $$`)
	require.NoError(t, err)
	go func() { _, _ = busy.Exec(context.Background(), `SELECT compute()`) }() // the connection gets lost
	watcher := connect(t, first.URL("postgres"))
	require.Eventually(t, func() bool {
		var n int
		err := watcher.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT compute()'`).Scan(&n)
		return err == nil && n == 1
	}, 10*time.Second, 10*time.Millisecond)
	first.Kill()

	second := start(t, pgtemp.Options{Dir: dir, Port: first.Port()})
	requireKept(t, second.URL("postgres"))
}

func TestStart_InitdbWasKilledHalfWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("of no cluster\n"), 0o600))

	insert(t, start(t, pgtemp.Options{Dir: dir}).URL("postgres"))
}

func TestStart_PortTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port

	_, err = pgtemp.Start(t.Context(), pgtemp.Options{Dir: t.TempDir(), Port: port, Template: empty})
	require.ErrorIs(t, err, pgtemp.ErrPortTaken)
	require.EqualError(t, err, "start PostgreSQL: 127.0.0.1:"+strconv.Itoa(port)+": port is taken")
}

func TestStart_ParentKilledLeavesNoServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentDir+"="+dir)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid := number(t, strings.TrimSpace(line))
	require.True(t, runs(pid), "the server runs")

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // killed
	// Start at once, as a supervisor would: the former server may still be ending.
	insert(t, start(t, pgtemp.Options{Dir: dir}).URL("postgres"))
	require.False(t, runs(pid), "the former server is gone")
}

// runs reports whether the process executes a program. A zombie does not: containers without an
// init leave orphans as zombies.
func runs(pid int) bool {
	_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil
}

func TestCreateDatabase_InAThrowawayDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg")
	server := start(t, pgtemp.Options{Dir: dir, Throwaway: true, Template: empty})
	require.NoError(t, server.CreateDatabase(t.Context(), "shop", ""))
	require.NoError(t, server.CreateDatabase(t.Context(), "shop", ""), "an existing database is fine")
	insert(t, server.URL("shop"))
	require.ErrorContains(t, server.CreateDatabase(t.Context(), "shop", "template1"), "already exists")

	conn, err := pgx.Connect(t.Context(), server.URL("shop"))
	require.NoError(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = conn.Close(context.Background()) })
	require.NoError(t, server.CreateDatabase(t.Context(), "copy", "shop"), "it waits for the template's connections")
	requireKept(t, server.URL("copy"))

	var fsync string
	require.NoError(t, connect(t, server.URL("shop")).QueryRow(t.Context(), `SHOW fsync`).Scan(&fsync))
	require.Equal(t, "off", fsync)
	require.NoError(t, server.Stop())
	require.NoDirExists(t, dir)
}

// TestReady_SaysWhyThereIsNoAnswer has a process that ends, one that never answers, and one that answers late.
func TestReady_SaysWhyThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	refuse := func(context.Context) error { return refused }

	ends, err := pgtemp.StartTied(exec.Command("sh", "-c", "exit 3"), syscall.SIGKILL)
	require.NoError(t, err)
	require.EqualError(t, ends.Ready(t.Context(), refuse), "it ended (exit status 3): connection refused")

	runs, err := pgtemp.StartTied(exec.Command("sleep", "600"), syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(runs.Kill)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("too late"))
	defer cancel()
	err = runs.Ready(ctx, refuse)
	require.EqualError(t, err, "too late: connection refused")
	require.ErrorIs(t, err, refused)

	looks := 0
	require.NoError(t, runs.Ready(t.Context(), func(context.Context) error {
		if looks++; looks < 3 {
			return refused
		}
		return nil
	}))
}

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

// TestFreePorts_GivesNoPortToTwoProcesses: go test runs packages side by side, and they bind their ports later.
func TestFreePorts_GivesNoPortToTwoProcesses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), countOfPorts+"=500")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			require.NoError(t, in.Close())
			require.NoError(t, cmd.Wait())
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		ports := strings.Fields(strings.Trim(line, "[]\n"))
		require.Len(t, ports, 500)
		for _, port := range ports {
			require.False(t, seen[port], "port %s was given twice", port)
			require.Less(t, number(t, port), 32768)
			seen[port] = true
		}
	}
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
