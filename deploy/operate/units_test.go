package operate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnits_AreValid gives the units to systemd-analyze, and a unit with a fault.
func TestUnits_AreValid(t *testing.T) {
	t.Parallel()
	analyze := installed(t, "systemd-analyze", "systemd")
	dir := t.TempDir()
	write := func(name, text string) {
		text = strings.ReplaceAll(text, "/usr/local/bin/checkout", "/bin/true") // a program that is there
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	processes := read(t, "systemd/checkout@.service")
	write("checkout-setup.service", read(t, "systemd/checkout-setup.service"))
	write("checkout@.service", processes)
	for _, unit := range []string{"checkout@api.service", "checkout@worker.service", "checkout-setup.service"} {
		if unit != "checkout-setup.service" {
			write(unit, processes)
		}
		require.Empty(t, run(t, dir, analyze, "verify", "--man=no", "./"+unit), unit)
		run(t, dir, analyze, "security", "--offline=yes", "--threshold=20", "./"+unit)
	}
	write("wrong.service", strings.Replace(processes, "ProtectHome=", "ProtectHouse=", 1))
	require.Contains(t, run(t, dir, analyze, "verify", "--man=no", "./wrong.service"), "ProtectHouse")
}

// TestUnits_LoadTheSecretsThatTheyName compares credentials and settings.
func TestUnits_LoadTheSecretsThatTheyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"checkout@.service", "checkout-setup.service"} {
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
