package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/listen"
	"example.com/checkout/workflows/webhook"
)

// listenCommand returns the command for merchants' developers. It is only a client of the REST API,
// so it reads none of the service's configuration.
func (c *call) listenCommand() *cobra.Command {
	settings, fault := config.LoadClient(c.environment)
	o := listen.Options{APIKey: settings.APIKey, Out: c.out}

	command := &cobra.Command{
		Use:   "listen --forward-to URL",
		Short: "Forward a merchant's test-mode events to a local server",
		Long: `Forwards signed test-mode events of the key in CHECKOUT_API_KEY to a server on this computer, and
catches up on events that it missed while stopped.`,
		Example: `  export CHECKOUT_API_KEY=sk_test_…
  checkout listen --forward-to http://127.0.0.1:3000/webhook
  checkout listen --forward-to http://127.0.0.1:3000/webhook --events payout.sent,payout.failed --since 10m`,
		Args: words(),
		PreRunE: func(*cobra.Command, []string) error {
			if fault != nil {
				return fault
			}
			return o.Check()
		},
		RunE: func(*cobra.Command, []string) error {
			c.work = func(ctx context.Context) error { return listen.Run(ctx, o) }
			return nil
		},
	}

	flags := command.Flags()
	flags.StringVar(&o.ForwardTo, "forward-to", "", "`URL` of the local server, such as http://127.0.0.1:3000/webhook")
	flags.StringVar(&o.APIURL, "api", settings.APIURL, "`URL` of the REST API; CHECKOUT_API_URL sets it too")
	flags.StringSliceVar(&o.Events, "events", nil, "event `types` to forward, separated by commas (default all)")
	flags.Func("since", "start `then`: a duration such as 10m, or an RFC 3339 time (default where the last run ended)",
		func(text string) (err error) {
			o.Since, err = listen.ParseSince(text, time.Now())
			return err
		})
	flags.StringVar(&o.StateFile, "state", "", "`file` for the secret and the position in the feed "+
		"(default one for each key below your configuration directory)")
	flags.BoolVar(&o.PlainHTTP, "plain-http", false,
		"allow http:// to an API on another computer: the key travels unencrypted")
	flags.BoolVar(&o.JSON, "json", false, "write one JSON object per line")
	completes(command, "events", names(webhook.EventTypes)...)
	return command
}
