package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/listen"
	"example.com/checkout/workflows/webhook"
)

// listenCommand is for merchants' developers. It is only a client of the REST API, so it reads none of the service's
// configuration.
var listenCommand = command{
	use:   "listen --forward-to URL",
	short: "Forward a merchant's test-mode events to a local server",
	long: `Forwards signed test-mode events of the key in CHECKOUT_API_KEY to a server on this computer, and
catches up on events that it missed while stopped.`,
	example: `  export CHECKOUT_API_KEY=sk_test_…
  checkout listen --forward-to http://127.0.0.1:3000/webhook
  checkout listen --forward-to http://127.0.0.1:3000/webhook --events payout.sent,payout.failed --since 10m`,
	args: words(),
	flags: func(f *pflag.FlagSet) {
		f.String("forward-to", "", "`URL` of the local server, such as http://127.0.0.1:3000/webhook")
		f.String("api", config.DefaultAPIURL, "`URL` of the REST API; CHECKOUT_API_URL sets it too")
		f.StringSlice("events", nil, "event `types` to forward, separated by commas (default all)")
		f.String("since", "", "start `then`: a duration such as 10m, or an RFC 3339 time (default where the last run ended)")
		f.String("state", "", "`file` for the secret and the position in the feed "+
			"(default one for each key below your configuration directory)")
		f.Bool("plain-http", false, "allow http:// to an API on another computer: the key travels unencrypted")
		f.Bool("json", false, "write one JSON object per line")
	},
	values: map[string][]string{"events": names(webhook.EventTypes)},
	check:  reading((*call).listenOptions),
	run: func(c *call, ctx context.Context) (result, error) {
		return nil, listen.Run(ctx, c.order.(listen.Options))
	},
}

func (c *call) listenOptions() (o listen.Options, err error) {
	settings, err := config.LoadClient(c.environment)
	if err != nil {
		return o, err
	}
	o = listen.Options{
		APIKey: settings.APIKey, APIURL: settings.APIURL, PlainHTTP: c.isSet("plain-http"), ForwardTo: c.text("forward-to"),
		Events: c.list("events"), StateFile: c.text("state"), JSON: c.isSet("json"), Out: c.out,
	}
	if c.flags.Changed("api") {
		o.APIURL = c.text("api")
	}
	if since := c.text("since"); c.flags.Changed("since") {
		if o.Since, err = listen.ParseSince(since, time.Now()); err != nil {
			return o, fmt.Errorf("invalid argument %q for \"--since\" flag: %w", since, err)
		}
	}
	err = o.Check() // it fills in defaults
	return o, err
}
