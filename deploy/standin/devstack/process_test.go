package devstack_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/devstack"
)

// role makes the test binary act as another program: see TestMain.
const role = "DEVSTACK_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "program": // stands for the program of `go run`: prints its id, and ends with its parent
		ctx, cancel := devstack.DieWithParent(context.Background())
		defer cancel()
		os.Stdout.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		<-ctx.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func shell(dir, log, script string) devstack.Program {
	return devstack.Program{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Log: log}
}

func TestProcess_EndsWithItsLastWords(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "script.log")
	process, err := shell(t.TempDir(), log, "echo first; echo no disk >&2; exit 3").Start()
	require.NoError(t, err)
	want := "script ended (exit status 3); the end of " + log + ":\nfirst\nno disk"
	never := func(context.Context) error { return errors.New("no answer") }
	require.EqualError(t, process.Ready(t.Context(), never), want)
	require.EqualError(t, process.Err(), want)
}

func TestProcess_StopAsksThenKills(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "script.log")
	polite, err := shell(t.TempDir(), log, "exec sleep 600").Start()
	require.NoError(t, err)
	require.NoError(t, polite.Err(), "it runs")
	require.NoError(t, polite.Stop(time.Minute))
	require.NoError(t, polite.Stop(time.Minute), "a second Stop does nothing")

	deaf, err := shell(t.TempDir(), log, "trap '' TERM; echo ready; while :; do sleep 0.1; done").Start()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(content), "ready")
	}, 10*time.Second, 10*time.Millisecond)
	require.EqualError(t, deaf.Stop(100*time.Millisecond), "script did not stop within 100ms and was killed")
}

func TestDieWithParent_EndsWhenGoRunIsKilled(t *testing.T) {
	t.Parallel()
	// A shell under the name of the go command; `wait` keeps it from replacing itself by the program.
	goCommand := filepath.Join(t.TempDir(), "go")
	sh, err := filepath.EvalSymlinks("/bin/sh")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(sh, goCommand))
	parent, program := startRole(t, goCommand, "program", "-c", os.Args[0]+" & wait")
	require.True(t, runs(program))
	require.NoError(t, syscall.Kill(parent, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !runs(program) }, 10*time.Second, 10*time.Millisecond)
}

// startRole runs path in a role. It returns the process's id and the id that the process prints.
func startRole(t *testing.T, path, name string, args ...string) (pid, told int) {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), role+"="+name)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // after a passed test it is already dead
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	told, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return cmd.Process.Pid, told
}

// runs reports whether the process executes a program. It is false for a process that has ended but
// was not waited for: orphans in containers without an init stay in this state.
func runs(pid int) bool {
	_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil
}
