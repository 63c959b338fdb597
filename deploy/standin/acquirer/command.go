package acquirer

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// Environment variables of Main. They hold secrets, which a flag would show to every process of this
// computer.
const (
	EnvDatabaseURL   = "ACQUIRER_DATABASE_URL"
	EnvSecretKey     = "ACQUIRER_SECRET_KEY"     // "" takes any key
	EnvWebhookSecret = "ACQUIRER_WEBHOOK_SECRET" //nolint:gosec // G101: the name of a secret
)

// Main is the command acquirer: it runs a double until ctx ends. When it answers, it prints one line
// for each address: "api", "script" or "control", a blank, and the URL.
func Main(ctx context.Context, args []string, out io.Writer) error {
	o := Options{
		DatabaseURL: os.Getenv(EnvDatabaseURL), SecretKey: os.Getenv(EnvSecretKey),
		Webhooks: Webhooks{Secret: os.Getenv(EnvWebhookSecret)},
	}
	flags := flag.NewFlagSet("acquirer", flag.ContinueOnError)
	flags.StringVar(&o.APIAddress, "api", "127.0.0.1:12111", "address of the API")
	flags.StringVar(&o.PageAddress, "page", "127.0.0.1:12112", "address of the script, the form and the bank's page")
	flags.StringVar(&o.ControlAddress, "control", "127.0.0.1:12113", "address for faults")
	flags.BoolVar(&o.Livemode, "livemode", false, "say livemode in every object")
	flags.StringVar(&o.Webhooks.URL, "webhook", "", "address that gets the events; none without it")
	flags.IntVar(&o.Webhooks.Copies, "webhook-copies", 3, "how often each event is sent")
	flags.DurationVar(&o.Webhooks.Spread, "webhook-spread", 2*time.Second, "the longest delay of an event")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.DatabaseURL == "" {
		return fmt.Errorf("%s names no PostgreSQL database", EnvDatabaseURL)
	}
	double, err := Start(ctx, o)
	if err != nil {
		return err
	}
	defer double.Stop()
	fmt.Fprintf(out, "api %s\nscript %s\ncontrol %s\n", double.APIURL(), double.ScriptURL(), double.Control().URL)
	<-ctx.Done()
	return nil
}
