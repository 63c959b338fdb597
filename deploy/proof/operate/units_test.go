package operate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// units are all units, with a name that systemd would give them.
var units = map[string]string{
	"checkout-setup.service":        "checkout-setup.service",
	"checkout-api@1.service":        "checkout-api@.service",
	"checkout-worker@1.0.0.service": "checkout-worker@.service",
}

// TestUnits_AreValid gives the units to systemd-analyze, and a unit with a fault. systemd-analyze reads one file, so
// the drop-in is at its end.
func TestUnits_AreValid(t *testing.T) {
	t.Parallel()
	analyze := installed(t, "systemd-analyze", "systemd")
	dir := t.TempDir()
	write := func(name, text string) {
		text = regexp.MustCompile(`/usr/local/(bin|lib)/checkout(/%i)?`).ReplaceAllString(text, "/bin/true") // a program that is there
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	hardening := read(t, "systemd/checkout-.service.d/10-hardening.conf")
	for name, file := range units {
		write(name, read(t, "systemd/"+file)+hardening)
	}
	for name := range units {
		require.Empty(t, run(t, dir, analyze, "verify", "--man=no", "./"+name), name)
		run(t, dir, analyze, "security", "--offline=yes", "--threshold=20", "./"+name)
	}
	write("wrong.service", strings.Replace(read(t, "systemd/checkout-setup.service")+hardening, "ProtectHome=", "ProtectHouse=", 1))
	require.Contains(t, run(t, dir, analyze, "verify", "--man=no", "./wrong.service"), "ProtectHouse")
}

// TestUnits_LoadTheSecretsThatTheyName compares credentials and settings.
func TestUnits_LoadTheSecretsThatTheyName(t *testing.T) {
	t.Parallel()
	for _, name := range units {
		unit := read(t, "systemd/"+name)
		named := regexp.MustCompile(`(?m)^Environment=(\w+)_FILE=%d/(\w+)$`).FindAllStringSubmatch(unit, -1)
		require.NotEmpty(t, named, name)
		require.Len(t, named, strings.Count(unit, "LoadCredential="), name)
		for _, setting := range named {
			require.Equal(t, setting[1], setting[2], name)
			require.Contains(t, unit, "\nLoadCredential="+setting[1]+":/etc/checkout/secrets/"+setting[1]+"\n", name)
		}
	}
}

// TestUnits_ASetupThatEndsStopsNothing: a restart of the setup must not restart the processes, and an API must start
// while the setup waits for Temporal.
func TestUnits_ASetupThatEndsStopsNothing(t *testing.T) {
	t.Parallel()
	for _, name := range units {
		require.NotRegexp(t, `(?m)^(Requires|BindsTo|PartOf|Requisite|Upholds)=`, read(t, "systemd/"+name))
	}
	require.NotContains(t, read(t, "systemd/checkout-api@.service"), "\nAfter=")
}

// TestAdmin_PassesTheSettingsAndTheSecrets runs checkout-admin with the files of a directory, and with env in place of the
// program.
func TestAdmin_PassesTheSettingsAndTheSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o700))
	write("secrets/DATABASE_URL", "postgres://here")
	write("environment", "# a comment\nTEMPORAL_ADDRESS=first:7233\nOTEL_RESOURCE_ATTRIBUTES='a=b c,d=#$e'\n")
	write("environment.worker", "TEMPORAL_ADDRESS=second:7233\n")
	write("environment.admin", "TEMPORAL_NAMESPACE=shop\n")
	write("environment.api", "CHECKOUT_STOP_DELAY=9s\n")
	write("secrets/DATABASE_URL.bak", "postgres://gone")
	write("checkout-admin", strings.Replace(read(t, "systemd/checkout-admin"), `exec "$program"`, "exec env", 1))
	said := run(t, dir, "env", "CONFIGURATION_DIRECTORY="+dir, "OTEL_SERVICE_NAME=it's mine", "TEMPORAL_NAMESPACE=mine", "sh", "checkout-admin", "sh", "-c", `echo "$TEMPORAL_ADDRESS|$TEMPORAL_NAMESPACE|$OTEL_RESOURCE_ATTRIBUTES|$DATABASE_URL_FILE|$CHECKOUT_STOP_DELAY|$OTEL_SERVICE_NAME"`)
	require.Equal(t, "second:7233|mine|a=b c,d=#$e|"+dir+"/secrets/DATABASE_URL||it's mine\n", said)
}
