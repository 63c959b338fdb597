package app

import (
	"context"
	"errors"
	"flag"
	"strconv"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var deliveryCommands = accountCommands{
	name: "delivery",
	usage: `usage: checkout delivery COMMAND

  failed [--limit 100] [--json]
                   the deliveries of all merchants that are permanently failed now, those that ended last first

One that was replayed since is not among them, unless the replay failed too. Temporal's UI cannot tell: a run
that failed stays Failed there, whatever a later run did. checkout replay whd_… starts one again.

These need DATABASE_URL and no other setting.
`,
	parse: map[string]func([]string) (accountAction, error){"failed": parseDeliveryFailed},
}

func parseDeliveryFailed(args []string) (accountAction, error) {
	flags := flag.NewFlagSet("delivery failed", flag.ContinueOnError)
	limit, asJSON := flags.Int("limit", 100, ""), flags.Bool("json", false, "")
	if _, err := parseWords(flags, args); err != nil {
		return nil, err
	}
	if *limit < 1 {
		return nil, errors.New("--limit must be 1 or more")
	}
	return func(ctx context.Context, c console) error { return c.listFailed(ctx, *limit, *asJSON) }, nil
}

// listedDelivery is a failed delivery as --json shows it.
type listedDelivery struct {
	ID         string            `json:"id"`
	MerchantID string            `json:"merchant_id"`
	Mode       checkout.Mode     `json:"mode"`
	EventType  webhook.EventType `json:"event_type"`
	Host       string            `json:"host"`
	Runs       int               `json:"runs"`
	FailedAt   string            `json:"failed_at"`
}

func (c console) listFailed(ctx context.Context, limit int, asJSON bool) error {
	failed, err := c.FailedDeliveries(ctx, limit)
	if err != nil {
		return err
	}
	listed := make([]listedDelivery, 0, len(failed))
	rows := [][]string{{"ID", "MERCHANT", "MODE", "EVENT", "HOST", "RUNS", "FAILED"}}
	for _, d := range failed {
		l := listedDelivery{d.ID, d.MerchantID, d.Mode, d.EventType, d.Host, d.Runs, checkout.FormatTime(d.FailedAt)}
		listed = append(listed, l)
		rows = append(rows, []string{l.ID, l.MerchantID, string(l.Mode), string(l.EventType), l.Host, strconv.Itoa(l.Runs), l.FailedAt})
	}
	if asJSON {
		return c.printJSON(listed)
	}
	return c.printTable(rows...)
}
