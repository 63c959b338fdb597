package operate_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

// parsed reads a compose file as docker compose does, with .env beside it.
func parsed(t *testing.T, text string) (*types.Project, error) {
	dir := t.TempDir()
	path := filepath.Join(dir, "compose.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	settings := "IMAGE=checkout:1.2.3\nCHECKOUT_PAGE_URL=https://pay.shop.example\nCHECKOUT_TRUSTED_PROXIES=172.16.0.0/12\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(settings), 0o600))
	options, err := cli.NewProjectOptions([]string{path}, cli.WithName("checkout"), cli.WithWorkingDirectory(dir),
		cli.WithEnvFiles(), cli.WithDotEnv)
	require.NoError(t, err)
	return options.LoadProject(t.Context())
}

func TestCompose_IsValid(t *testing.T) {
	t.Parallel()
	text := read(t, "compose/compose.yaml")
	_, err := parsed(t, text)
	require.NoError(t, err)
	for _, fault := range []struct{ from, to, says string }{
		{"cap_drop:", "cap_drops:", "cap_drops"},
		{"secrets: [DATABASE_URL, CHECKOUT_MASTER_KEYS]", "secrets: [DATABASE_URL, MASTER_KEYS]", "undefined secret"},
		{"{setup: {condition: service_completed_successfully}}", "{setups: {condition: service_completed_successfully}}", "undefined service"},
		{"source: databases", "source: database", "undefined config"},
		{"${IMAGE:?", "${OTHER:?", "OTHER"},
	} {
		require.Contains(t, text, fault.from)
		_, err := parsed(t, strings.ReplaceAll(text, fault.from, fault.to))
		require.ErrorContains(t, err, fault.says)
	}
}

// TestCompose_AgreesWithItself checks that each file of a setting is a secret that the service gets, that
// each published port is one on which it listens, and that its processes may do nothing more than the
// image's.
func TestCompose_AgreesWithItself(t *testing.T) {
	t.Parallel()
	project, err := parsed(t, read(t, "compose/compose.yaml"))
	require.NoError(t, err)
	api := project.Services["api"]
	require.Equal(t, "checkout:1.2.3", api.Image)
	require.Equal(t, "https://pay.shop.example", *api.Environment["CHECKOUT_PAGE_URL"])
	require.Equal(t, "172.16.0.0/12", *api.Environment["CHECKOUT_TRUSTED_PROXIES"])
	for name, service := range project.Services {
		require.Equal(t, []string{"no-new-privileges:true"}, service.SecurityOpt, name)
		require.Equal(t, []string{"ALL"}, service.CapDrop, name)
		require.Equal(t, name != "temporal-ui", service.ReadOnly, name)
		require.Positive(t, service.MemLimit, name)
		require.NotNil(t, service.Logging, name)
		given := map[string]bool{}
		for _, secret := range service.Secrets {
			given["/run/secrets/"+secret.Source] = true
		}
		listens := map[string]bool{"8080": name == "temporal-ui"}
		for variable, value := range service.Environment {
			if strings.HasSuffix(variable, "_FILE") {
				require.True(t, given[*value], "%s: %s", name, variable)
			}
			if strings.HasSuffix(variable, "_ADDRESS") {
				listens[strings.TrimPrefix(*value, ":")] = true
			}
		}
		for _, port := range service.Ports {
			require.True(t, listens[fmt.Sprint(port.Target)], "%s: nothing listens on %d", name, port.Target)
			require.Equal(t, "127.0.0.1", port.HostIP, name)
		}
	}
}

// TestCompose_ItsTemporalStarts makes the databases and the schema with the script of compose.yaml, and
// starts Temporal with the environment of its service, twice. Only hosts, ports and paths are this
// computer's.
func TestCompose_ItsTemporalStarts(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	ctx := t.Context()
	project, err := parsed(t, read(t, "compose/compose.yaml"))
	require.NoError(t, err)
	program, err := devstack.TemporalProgram.Build(context.WithoutCancel(ctx), t.Output())
	require.NoError(t, err)
	postgres, err := pgtemp.Start(ctx, pgtemp.Options{Throwaway: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = postgres.Stop() }) // a throwaway
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}

	admin, err := pgx.Connect(ctx, postgres.URL("postgres"))
	require.NoError(t, err)
	_, err = admin.Exec(ctx, "CREATE ROLE checkout SUPERUSER LOGIN PASSWORD 'p:a@s/s'")
	require.NoError(t, err)
	_, err = admin.Exec(ctx, "CREATE DATABASE checkout OWNER checkout")
	require.NoError(t, err)
	for statement := range strings.SplitSeq(strings.TrimSpace(project.Configs["databases"].Content), "\n") {
		_, err = admin.Exec(ctx, statement)
		require.NoError(t, err)
	}
	write("postgres_password", "p:a@s/s\n", 0o600)
	write("temporal-sql-tool", "#!/bin/sh\nexec "+program+` sql "$@"`+"\n", 0o700)
	here := map[string]string{
		"SQL_HOST": "127.0.0.1", "SQL_PORT": fmt.Sprint(postgres.Port()),
		"POSTGRES_SEEDS": "127.0.0.1", "DB_PORT": fmt.Sprint(postgres.Port()),
		"DYNAMIC_CONFIG_FILE_PATH": write("dynamic.yaml", project.Configs["temporal-dynamic"].Content, 0o600),
		"BIND_ON_IP":               "127.0.0.1",
	}
	ports, err := pgtemp.FreePorts(9)
	require.NoError(t, err)
	for i, name := range []string{"FRONTEND_GRPC", "FRONTEND_MEMBERSHIP", "FRONTEND_HTTP", "HISTORY_GRPC", "HISTORY_MEMBERSHIP",
		"MATCHING_GRPC", "MATCHING_MEMBERSHIP", "WORKER_GRPC", "WORKER_MEMBERSHIP"} {
		here[name+"_PORT"] = fmt.Sprint(ports[i])
	}
	environment := func(service string) (all []string) {
		for name, value := range project.Services[service].Environment {
			if _, ok := here[name]; !ok {
				all = append(all, name+"="+*value)
			}
		}
		for name, value := range here {
			all = append(all, name+"="+value)
		}
		return append(all, "PATH="+dir+":"+os.Getenv("PATH"))
	}
	// script is the command of a service with the secrets of dir. compose writes $ as $$.
	script := func(service string) string {
		text := project.Services[service].Command[0]
		text = strings.NewReplacer("$$", "$", "/run/secrets/", dir+"/", "/etc/temporal/entrypoint.sh", program+" server").Replace(text)
		return text
	}

	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	for range 2 {
		schema := exec.CommandContext(ctx, "sh", "-euc", script("temporal-schema"))
		schema.Env = environment("temporal-schema")
		said, err := schema.CombinedOutput()
		require.NoError(t, err, string(said))

		server := start(t, devstack.Program{
			Name: "temporal", Path: "/bin/sh", Args: []string{"-euc", script("temporal")}, Dir: dir,
			Env: environment("temporal"), Log: filepath.Join(dir, "temporal.log"),
		})
		c, err := client.NewLazyClient(client.Options{HostPort: address, Logger: log.NewStructuredLogger(e2e.Discard)})
		require.NoError(t, err)
		e2e.Await(t, "Temporal answers", 3*time.Minute, func() bool {
			require.NoError(t, server.Err())
			_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
			return err == nil
		})
		c.Close()
		// checkout setup needs the namespaces, the visibility store and the schedules. compose repeats it when it fails.
		e2e.Await(t, "setup", time.Minute, func() bool {
			err := app.Main(ctx, []string{"setup"}, []string{
				"DATABASE_URL=" + postgres.URL("checkout"), "TEMPORAL_ADDRESS=" + address,
			}, os.Stderr, os.Stderr)
			t.Log("setup:", err)
			return err == nil
		})
		require.NoError(t, server.Stop(30*time.Second))
	}
}
