package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/checkout/deploy/listen"
)

const listenUsage = `usage: checkout listen --forward-to URL [flags]

Forwards the test-mode events of the key in CHECKOUT_API_KEY to a server on this
computer, signed, and catches up on those that it missed while it did not run.

`

// defaultAPIURL is where the API listens unless it is told otherwise.
const defaultAPIURL = "http://127.0.0.1:8080"

// runListen is the one command for merchants' developers: a client of the REST
// API, so it takes none of the service's configuration.
func runListen(ctx context.Context, args, environment []string, out io.Writer) error {
	settings := env.ToMap(environment)
	o := listen.Options{APIKey: settings["CHECKOUT_API_KEY"], Out: out}
	api := settings["CHECKOUT_API_URL"]
	if api == "" {
		api = defaultAPIURL
	}
	var events, since string
	flags := flag.NewFlagSet("listen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.ForwardTo, "forward-to", "", "`URL` of the local server, such as http://127.0.0.1:3000/webhook")
	flags.StringVar(&o.APIURL, "api", api, "`URL` of the REST API; CHECKOUT_API_URL sets it too")
	flags.StringVar(&events, "events", "", "event `types` to forward, separated by commas; default all")
	flags.StringVar(&since, "since", "", "begin `then`: a duration such as 10m, or an RFC 3339 time; default where the last run ended")
	flags.StringVar(&o.StateFile, "state", "", "`file` that keeps the secret and how far listen has come; default one for each key below your configuration directory")
	flags.BoolVar(&o.PlainHTTP, "plain-http", false, "allow http:// to an API on another computer: the key travels unencrypted")
	flags.BoolVar(&o.JSON, "json", false, "write a JSON object a line")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(out, listenUsage) // a lost word of help harms nothing
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; checkout listen -h lists the flags", err)
	case flags.NArg() > 0: // not quoted: it may be a key
		return errors.New("listen takes flags only; checkout listen -h lists them")
	}
	var err error
	if o.Events, err = listen.ParseEvents(events); err != nil {
		return fmt.Errorf("--events %w", err)
	}
	if o.Since, err = listen.ParseSince(strings.TrimSpace(since), time.Now()); err != nil {
		return fmt.Errorf("--since %w", err)
	}
	return listen.Run(ctx, o)
}
