package devstack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"example.com/checkout/workflows/checkout"
)

// UIOptions describe Temporal's UI to start.
type UIOptions struct {
	Program   string // of BuildTemporal
	Temporal  string // host:port of the frontend
	Namespace string // shown first
	Dir       string // for configuration and log
	Port      int    // on 127.0.0.1
}

// StartUI starts Temporal's UI and returns when it answers. It needs nothing from the internet.
// Operators can signal, cancel, terminate and reset workflows with it. It asks for no password, so
// only this computer can reach it. While Temporal is away, it shows errors.
func StartUI(ctx context.Context, o UIOptions) (_ *Process, err error) {
	defer checkout.Wrap(&err, "start Temporal's UI")
	if err := checkFree(o.Port, "-ui-port"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}

	const environment = "devstack" // the name of the configuration file
	if err := writeJSON(filepath.Join(o.Dir, environment+".yaml"), map[string]any{
		"temporalGrpcAddress": o.Temporal,
		"host":                "127.0.0.1",
		"port":                o.Port,
		"enableUi":            true,
		"defaultNamespace":    o.Namespace,
		"disableNewsFetch":    true, // otherwise the UI would ask a server on the internet
		"hideLogs":            true,
		"refreshInterval":     "0s", // the file never changes
		"cors": map[string]any{
			// Other pages in the operator's browser must not be able to use the UI.
			"allowOrigins":   []string{"http://" + loopback(o.Port), fmt.Sprintf("http://localhost:%d", o.Port)},
			"cookieInsecure": true, // plain HTTP
		},
		"codec": map[string]any{"endpoint": ""},
		"auth":  map[string]any{"enabled": false},
	}); err != nil {
		return nil, err
	}

	process, err := Program{
		Name: "temporal-ui",
		Path: o.Program,
		Args: []string{"ui", o.Dir, environment},
		Dir:  o.Dir,
		Log:  filepath.Join(o.Dir, "temporal-ui.log"),
	}.Start()
	if err != nil {
		return nil, err
	}

	for {
		if err := get(ctx, "http://"+loopback(o.Port)+"/healthz"); err == nil {
			return process, nil
		}
		select {
		case <-process.Done():
			return nil, process.Err()
		case <-ctx.Done():
			process.Kill()
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// get returns nil when url answers with 200.
func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, answer.Status)
	}
	return nil
}
