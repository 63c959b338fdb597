package devstack

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemporal_IsBuiltWithoutTheLibraries(t *testing.T) {
	t.Parallel()
	program, err := TemporalProgram.Build(t.Context(), t.Output())
	require.NoError(t, err)

	info, err := buildinfo.ReadFile(program)

	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	for _, module := range info.Deps {
		for _, library := range TemporalProgram.Without.Libraries {
			require.False(t, strings.HasPrefix(module.Path+"/", library), module.Path)
		}
	}
}

// TestTemporal_RefusesWhatIsLeftOut starts the server with settings for what its build leaves out.
func TestTemporal_RefusesWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	program, err := TemporalProgram.Build(t.Context(), t.Output())
	require.NoError(t, err)
	const (
		settings = `
services: {frontend: {rpc: {bindOnIP: 127.0.0.1}}}
persistence:
  defaultStore: default
  visibilityStore: visibility
  numHistoryShards: 1
  datastores: {default: {sql: {pluginName: postgres12_pgx, %[1]s}}, visibility: %[2]s}
%[3]s`
		sql      = `databaseName: temporal, connectAddr: "127.0.0.1:1", connectProtocol: tcp`
		postgres = `{sql: {pluginName: postgres12_pgx, ` + sql + `}}`
		archive  = `
archival: {%[1]s: {state: enabled, provider: {%[2]s: {region: eu}}}}
namespaceDefaults: {archival: {%[1]s: {URI: "s3://archive"}}}`
	)
	for want, c := range map[string]struct{ visibility, more string }{
		"archives of histories in a cloud":  {postgres, fmt.Sprintf(archive, "history", "s3store")},
		"archives of visibility in a cloud": {postgres, fmt.Sprintf(archive, "visibility", "gstorage")},
		"signed requests to AWS": {`{elasticsearch: {version: v8, url: {scheme: http, host: "127.0.0.1:1"},
    indices: {visibility: visibility}, aws-request-signing: {enabled: true, region: eu-central-1}}}`, ""},
		"SQLite": {`{sql: {pluginName: sqlite, ` + sql + `}}`, ""},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "temporal.yaml")
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, settings, sql, c.visibility, c.more), 0o600))

			said, err := exec.CommandContext(t.Context(), program, "server", file).CombinedOutput()

			require.Error(t, err)
			require.Contains(t, string(said), "left out of the local stack's build of Temporal: "+want)
		})
	}
}

// TestTemporal_NamesEachComputeProviderThatIsLeftOut compares what the left out files register with what the stub does.
func TestTemporal_NamesEachComputeProviderThatIsLeftOut(t *testing.T) {
	t.Parallel()
	registered := regexp.MustCompile(`RegisterComputeProvider\((iface\.\w+)`)
	const pkg = "go.temporal.io/auto-scaled-workers/wci/workflow/compute_provider"
	list := exec.CommandContext(t.Context(), "go", "list", "-find", "-f", "{{.Dir}}", pkg)
	list.Dir = "../temporal"
	dir, err := list.Output()
	require.NoError(t, err)
	stub, err := os.ReadFile(filepath.Join(list.Dir, TemporalProgram.Without.Stubs[pkg]))
	require.NoError(t, err)

	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	require.NoError(t, err)
	names := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if regexp.MustCompile(`"(github.com/aws|cloud.google.com|k8s.io)/`).Match(text) {
			for _, match := range registered.FindAllSubmatch(text, -1) {
				require.Contains(t, string(stub), string(match[1]))
				names++
			}
		}
	}
	require.Equal(t, 5, names)
}

// TestTemporal_HasTheServicesVersions compares the two go.mod files: what both need is then
// compiled once at the first start. Temporal 1.32 does not compile with our OpenTelemetry.
func TestTemporal_HasTheServicesVersions(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^\t(\S+\.\S+) (v\S+)`)
	required := func(file string) map[string]string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		versions := map[string]string{}
		for _, match := range line.FindAllStringSubmatch(string(text), -1) {
			versions[match[1]] = match[2]
		}
		return versions
	}
	service, temporal := required("../../../go.mod"), required("../temporal/go.mod")
	require.NotEmpty(t, service)
	for name, version := range service {
		if had, ok := temporal[name]; ok && !strings.HasPrefix(name, "go.opentelemetry.io/") {
			require.Equal(t, version, had, "%s: go get the later one where the earlier one is", name)
		}
	}
}
