package devstack

import (
	"context"
	"os"
	"path/filepath"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/workflows/checkout"
)

// startUI starts Temporal's UI and returns when it answers. It needs nothing from the internet.
// Operators can signal, cancel, terminate and reset workflows with it. It asks for no password, so
// only this computer can reach it. While Temporal is away, it shows errors.
func (s *Stack) startUI(ctx context.Context) (err error) {
	if s.options.NoUI {
		return nil
	}
	defer checkout.Wrap(&err, "start Temporal's UI")
	dir, port := filepath.Join(s.options.Dir, "temporal-ui"), s.options.Ports.UI
	if err := checkFree(port, "-ui-port"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	const environment = "devstack" // the name of the configuration file
	values := map[string]any{"Temporal": s.Temporal, "Port": port}
	if err := writeConfig(filepath.Join(dir, environment+".yaml"), "ui.yaml", values); err != nil {
		return err
	}
	s.UI, err = Program{
		Name: "temporal-ui", Path: s.temporalProgram, Args: []string{"ui", dir, environment}, Dir: dir,
		Log: filepath.Join(dir, "temporal-ui.log"),
	}.Start()
	if err != nil {
		return err
	}
	return s.UI.Ready(ctx, func(ctx context.Context) error { return app.Answers(ctx, s.UIURL()+"/healthz") })
}
