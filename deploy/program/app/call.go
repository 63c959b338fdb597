package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/deploy/program/telemetry"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// A call is one run of the program.
type call struct {
	out         io.Writer // the command's output, fit for a script
	notes       io.Writer // explanations for people
	environment []string

	// The command, and the words and flags that follow it.
	name  string
	args  []string
	flags *pflag.FlagSet
	order any  // what the command's check read: see reading
	run   work // nil for help and completion, which cobra prints itself
}

// text returns the value of a flag, "" when the command has none of the name.
func (c *call) text(flag string) string {
	value, _ := c.flags.GetString(flag)
	return value
}

// isSet returns the value of a flag without a text, false when the command has none of the name.
func (c *call) isSet(flag string) bool {
	value, _ := c.flags.GetBool(flag)
	return value
}

// number returns the value of a flag.
func (c *call) number(flag string) int {
	value, _ := c.flags.GetInt(flag)
	return value
}

// list returns the values of a flag that may be repeated.
func (c *call) list(flag string) []string {
	values, _ := c.flags.GetStringSlice(flag)
	return values
}

// reading returns a check that keeps what parse reads as the call's order.
func reading[T any](parse func(*call) (T, error)) func(*call) error {
	return func(c *call) (err error) {
		c.order, err = parse(c)
		return err
	}
}

// printLine prints a line of the output while the command runs.
func (c *call) printLine(line string) { fmt.Fprintln(c.out, line) }

// mode is the value of the flag --mode.
func (c *call) mode() checkout.Mode { return checkout.Mode(c.text("mode")) }

var modes = names([]checkout.Mode{checkout.ModeTest, checkout.ModeLive})

func (c *call) checkMode() error {
	switch mode := c.mode(); mode {
	case checkout.ModeTest, checkout.ModeLive:
		return nil
	case "":
		return errors.New("--mode is missing: test or live")
	default:
		return fmt.Errorf("--mode must be test or live, not %q", mode)
	}
}

// checkLabel returns an error if the value of a flag is not a fit name or label for people to read.
func (c *call) checkLabel(flag string) error {
	if err := action.CheckLabel(c.text(flag)); err != nil {
		return fmt.Errorf("--%s %w", flag, err)
	}
	return nil
}

// checkEmail returns an error if the value of a flag is not an e-mail address.
func (c *call) checkEmail(flag string) error {
	if !checkout.ValidEmail(c.text(flag)) {
		return fmt.Errorf("--%s is not a bare e-mail address, such as somebody@shop.example", flag)
	}
	return nil
}

// A keylessCall is a call of a command that has PostgreSQL, but neither Temporal nor the master keys.
type keylessCall struct {
	*call
	*storage.Keyless

	settings config.Stores
}

// withKeyless returns the work of such a command.
func withKeyless(act func(keylessCall, context.Context) (result, error)) work {
	return func(c *call, ctx context.Context) (result, error) {
		settings, err := config.LoadStores(c.environment)
		if err != nil {
			return nil, configurationError(err)
		}
		options := storage.Options{URL: settings.DatabaseURL, Pooled: settings.Pooler.Kind != ""}
		keyless, err := storage.OpenKeyless(ctx, options)
		if err != nil {
			return nil, err
		}
		defer keyless.Close()
		return act(keylessCall{c, keyless, settings}, ctx)
	}
}

// A storeCall is a call of a command that needs the service's whole configuration and the store.
type storeCall struct {
	*call
	*storage.Store

	cfg config.Config
}

// withStore returns the work of such a command.
func withStore(act func(storeCall, context.Context) (result, error)) work {
	return withConfig(ends, func(c *call, ctx context.Context, cfg config.Config) (result, error) {
		store, err := service.OpenStore(ctx, cfg)
		if err != nil {
			return nil, err
		}
		defer store.Close()
		return act(storeCall{c, store, cfg}, ctx)
	})
}

// withActions calls do with the actions on the store and on Temporal.
func (c storeCall) withActions(ctx context.Context, do func(action.Actions) error) error {
	temporal, err := service.DialTemporal(ctx, c.cfg.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	return do(action.Actions{Store: action.StoreOf(c.Store), Runs: &runs.Client{Temporal: temporal}})
}

// A process stays until it is stopped, or ends when its work is done.
const (
	stays = true
	ends  = false
)

// withConfig returns the work of a command that needs the service's whole configuration.
func withConfig(
	stays bool, act func(*call, context.Context, config.Config) (result, error),
) work {
	return func(c *call, ctx context.Context) (got result, err error) {
		cfg, err := config.Load(c.environment)
		if err != nil {
			return nil, configurationError(err)
		}
		err = c.withTelemetry(ctx, telemetry.Options{Stays: stays, Out: c.out, Level: cfg.Level}, func() (err error) {
			got, err = act(c, ctx, cfg)
			return err
		})
		if stays && ctx.Err() != nil && errors.Is(err, context.Canceled) { // it was stopped while it waited
			err = nil
		}
		return got, err
	}
}

// withTelemetry calls do with the log and the telemetry of the command.
func (c *call) withTelemetry(ctx context.Context, o telemetry.Options, do func() error) error {
	o.Service = c.name
	flush, err := telemetry.Setup(ctx, o)
	if err != nil {
		return err
	}
	defer flush()
	return do()
}

// withSettings returns the work of a command that ends and needs only the part of the settings that load reads. Log
// lines go to notes, because out is for the command's own output.
func withSettings[T any](
	load func(environment []string) (T, error), act func(*call, context.Context, T) error,
) work {
	return func(c *call, ctx context.Context) (result, error) {
		settings, err := load(c.environment)
		if err != nil {
			return nil, configurationError(err)
		}
		return nil, c.withTelemetry(ctx, telemetry.Options{Out: c.notes}, func() error { return act(c, ctx, settings) })
	}
}

// configurationError names the settings as the place of the fault.
func configurationError(err error) error { return fmt.Errorf("configuration:\n%w", err) }

// explain returns a text for operators in the place of err, if that is cause.
func explain(err, cause error, format string, args ...any) error {
	if errors.Is(err, cause) {
		return fmt.Errorf(format, args...)
	}
	return err
}
