package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/caarlos0/env/v11"
)

// fileSuffix ends the name of a setting whose value is in a file.
const fileSuffix = "_FILE"

// read returns the settings in environment, a list of NAME=value. Values from files are filled in. It
// passes to report the faults of files and of names that are not settings.
func read(environment []string, report func(name string, err error)) map[string]string {
	settings := env.ToMap(environment)
	known := knownNames()
	for name, value := range env.ToMap(environment) {
		setting, isFile := strings.CutSuffix(name, fileSuffix)
		switch {
		case slices.Contains(known, name):
		case isFile && slices.Contains(known, setting) && !namesFile(setting):
			if value != "" && settings[setting] != "" {
				report(name, fmt.Errorf("and %s must not both be set", setting))
			} else if value != "" {
				content, err := contentOf(value)
				report(name, err)
				settings[setting] = content
			}
		default:
			report(name, unknown(name, value, known))
		}
	}
	return settings
}

// contentOf returns the content of a file, without the newline at its end. The error names the path
// only if it is absolute: a value may have been set in the place of a path.
func contentOf(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("must be the absolute path of a file")
	}
	content, err := os.ReadFile(path) //nolint:gosec // G304: an operator's setting
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err
		}
		return "", fmt.Errorf("names %s, which cannot be read: %w", path, err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// namesFile reports whether the value of a setting is the name of a file anyway.
func namesFile(setting string) bool {
	return strings.HasSuffix(setting, fileSuffix) || strings.HasSuffix(setting, "_PATH") ||
		strings.HasSuffix(setting, "_KEYSTORE")
}

// knownNames returns the names of all settings of all commands.
func knownNames() []string {
	known := append(namesOf(reflect.TypeFor[Config]()), namesOf(reflect.TypeFor[Setup]())...)
	known = append(known, namesOf(reflect.TypeFor[Client]())...)
	for _, live := range namesOf(reflect.TypeFor[Networks]()) {
		known = append(known, testName(live))
	}
	return append(known, SlowTask, "TEMPORAL_DEBUG")
}

// SlowTask is an environment variable of Temporal's SDK: the SDK warns of a workflow task that takes
// more seconds than this.
const SlowTask = "TEMPORAL_WORKFLOW_TASK_DURATION_WARN_SECONDS"

// namesOf returns the names of the settings in a struct and in the structs in it.
func namesOf(settings reflect.Type) []string {
	var names []string
	for field := range settings.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		switch {
		case name == "" && field.Type.Kind() == reflect.Struct:
			names = append(names, namesOf(field.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

// ofServices matches what Kubernetes and Docker set for the services beside a process: a service with
// the name checkout-api gives CHECKOUT_API_SERVICE_HOST, for example.
var ofServices = regexp.MustCompile(
	`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?$`)

// ofTemporalsTools are settings of Temporal's own tools that this program does not read, by name. The
// value is the setting to use instead. Source: go.temporal.io/sdk/contrib/envconfig.
var ofTemporalsTools = map[string]string{
	"TEMPORAL_CONFIG_FILE":                   "",
	"TEMPORAL_PROFILE":                       "",
	"TEMPORAL_CLIENT_AUTHORITY":              "",
	"TEMPORAL_CODEC_ENDPOINT":                "",
	"TEMPORAL_CODEC_AUTH":                    "",
	"TEMPORAL_TLS_CLIENT_CERT_DATA":          "TEMPORAL_TLS_CLIENT_CERT_PATH",
	"TEMPORAL_TLS_CLIENT_KEY_DATA":           "TEMPORAL_TLS_CLIENT_KEY_PATH",
	"TEMPORAL_TLS_SERVER_CA_CERT_DATA":       "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
	"TEMPORAL_TLS_DISABLE_HOST_VERIFICATION": "TEMPORAL_TLS_SERVER_NAME",
}

// renamed are settings of earlier versions, by name, and what they are called now.
var renamed = map[string]string{
	"CHECKOUT_BUILD_ID": "TEMPORAL_WORKER_BUILD_ID", // 0.1
}

// headersOfTemporal begins the names of settings of Temporal's tools that set headers of its calls.
const headersOfTemporal = "TEMPORAL_GRPC_META_"

// unknown returns the fault of a name that is not a setting. It is nil for the names of other programs.
func unknown(name, value string, known []string) error {
	ours, temporals := strings.HasPrefix(name, "CHECKOUT_"), strings.HasPrefix(name, "TEMPORAL_")
	link := ofServices.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.HasPrefix(value, "tcp://")
	if !ours && !temporals || link {
		return nil
	}
	instead, foreign := ofTemporalsTools[name]
	if foreign || strings.HasPrefix(name, headersOfTemporal) {
		said := "is a setting of Temporal's tools; checkout does not read it"
		if instead != "" {
			said += "; use " + instead
		}
		return errors.New(said)
	}
	near := nearest(name, known)
	switch {
	case renamed[name] != "":
		return fmt.Errorf("is now called %s", renamed[name])
	case near != "":
		return fmt.Errorf("is not a setting; did you mean %s?", near)
	case ours || strings.HasPrefix(name, "TEMPORAL_TLS_"):
		return errors.New("is not a setting")
	}
	return nil // TEMPORAL_…: a setting of another program
}

// nearest returns the known name, or the name of its file, that differs from name in the fewest
// characters; "" if all differ in more than a fifth of them.
func nearest(name string, known []string) string {
	near, least := "", len(name)/5+1
	for _, setting := range known {
		candidates := []string{setting}
		if !namesFile(setting) {
			candidates = append(candidates, setting+fileSuffix)
		}
		for _, candidate := range candidates {
			if d := levenshtein.ComputeDistance(name, candidate); d < least {
				near, least = candidate, d
			}
		}
	}
	return near
}

// DefaultAPIURL is where the API of a local stack listens.
const DefaultAPIURL = "http://127.0.0.1:8080"

// Client holds the settings of `checkout listen`, which is a client of the REST API.
type Client struct {
	APIKey string `env:"CHECKOUT_API_KEY"`
	APIURL string `env:"CHECKOUT_API_URL" envDefault:"http://127.0.0.1:8080"`
}

// LoadClient reads environment as Load does, with errors in the same form. Other names are not its
// business: a shop may have settings that begin with CHECKOUT_.
func LoadClient(environment []string) (Client, error) {
	var c Client
	own := slices.DeleteFunc(slices.Clone(environment), func(setting string) bool {
		return !strings.HasPrefix(setting, "CHECKOUT_API_KEY") && !strings.HasPrefix(setting, "CHECKOUT_API_URL")
	})
	err := load(own, &c, func(map[string]string, func(string, error)) {})
	return c, err
}
