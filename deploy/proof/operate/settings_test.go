package operate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/release"
)

// others are settings that libraries read.
var others = []string{"SSL_CERT_FILE", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_PROMETHEUS_HOST"}

// settings returns the names of all settings in a struct.
func settings(of reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		} else if name == "" && field.Type.Kind() == reflect.Struct {
			names = append(names, settings(field.Type)...)
		}
	}
	return names
}

// TestSettings_OfWhatIsShippedAreKnown looks for names of settings in the chart, the compose file and the
// units.
func TestSettings_OfWhatIsShippedAreKnown(t *testing.T) {
	t.Parallel()
	known := slices.Concat(settings(reflect.TypeFor[config.Config]()), settings(reflect.TypeFor[config.Setup]()), others)
	shape := regexp.MustCompile(`\b(CHECKOUT|TEMPORAL|DATABASE|OTEL|SSL)_[A-Z0-9_]*[A-Z0-9]\b`)
	found := map[string]bool{}
	for _, dir := range []string{"chart/templates", "compose", "systemd"} {
		require.NoError(t, filepath.WalkDir(e2e.Path("deploy", "release", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			for _, name := range shape.FindAllString(string(content), -1) {
				found[name] = true
				setting := strings.TrimSuffix(name, "_FILE")
				ok := slices.Contains(known, name) || slices.Contains(known, setting)
				require.True(t, ok, "%s names %s, which is no setting", path, name)
			}
			return err
		}))
	}
	require.Greater(t, len(found), 10, "the test did not find the settings")
}

// TestUser_IsTheSameEverywhere compares the user of the image, the chart and the compose file.
func TestUser_IsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	uid, gid, _ := strings.Cut(release.User, ":")
	require.Contains(t, read(t, "container/Dockerfile"), "\nUSER "+release.User+"\n")
	require.Contains(t, read(t, "compose/compose.yaml"), `user: "`+release.User+`"`)
	require.Contains(t, read(t, "chart/templates/_process.tpl"), "runAsUser: "+uid+", runAsGroup: "+gid+", fsGroup: "+gid)
}

// TestVersions_OfTemporalAreThoseThatAreTested compares the images of compose.yaml with the module that the
// tests run.
func TestVersions_OfTemporalAreThoseThatAreTested(t *testing.T) {
	t.Parallel()
	module, compose := read(t, "../standin/temporal/go.mod"), read(t, "compose/compose.yaml")
	for image, path := range map[string]string{
		"server": "go.temporal.io/server", "admin-tools": "go.temporal.io/server", "ui": "github.com/temporalio/ui-server/v2",
	} {
		version := regexp.MustCompile(regexp.QuoteMeta(path) + ` v(\S+)`).FindStringSubmatch(module)[1]
		require.Contains(t, compose, "image: temporalio/"+image+":"+version+"\n")
	}
}
