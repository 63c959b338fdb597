package app

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func (c *call) deliveryCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "delivery",
		Short: "List the deliveries that are permanently failed now",
		Long:  `Lists deliveries of all merchants. It needs DATABASE_URL and no other setting.`,
	}
	command.AddCommand(c.deliveryFailedCommand())
	return command
}

func (c *call) deliveryFailedCommand() *cobra.Command {
	var limit int
	var asJSON bool
	command := &cobra.Command{
		Use:   "failed",
		Short: "List what is permanently failed now, the last that ended first",
		Long: `Lists the deliveries of all merchants that are permanently failed now, the last that ended first.

A delivery that was replayed is in the list only if the replay failed too. Temporal's UI cannot tell:
a run that failed stays Failed there, whatever a later run did. checkout replay whd_… starts one again.
A URL is shown without its query, which often holds a secret.`,
		Example: "  checkout delivery failed --limit 10",
		Args:    words(),
		RunE: c.operator(func([]string) (accountAction, error) {
			if limit < 1 {
				return nil, errors.New("--limit must be 1 or more")
			}
			return func(ctx context.Context, c console) error { return c.listFailed(ctx, limit, asJSON) }, nil
		}),
	}
	command.Flags().IntVar(&limit, "limit", 100, "print at most `n` deliveries")
	addJSON(command, &asJSON)
	return command
}

// listedDelivery is a failed delivery in the output of --json.
type listedDelivery struct {
	ID         string            `json:"id"`
	MerchantID string            `json:"merchant_id"`
	Mode       checkout.Mode     `json:"mode"`
	EventType  webhook.EventType `json:"event_type"`
	Host       string            `json:"host"`
	URL        string            `json:"url"`
	Runs       int               `json:"runs"`
	FailedAt   string            `json:"failed_at"`
}

func (c console) listFailed(ctx context.Context, limit int, asJSON bool) error {
	failed, err := c.FailedDeliveries(ctx, limit)
	if err != nil {
		return err
	}
	listed := make([]listedDelivery, 0, len(failed))
	rows := [][]string{{"ID", "MERCHANT", "MODE", "EVENT", "URL", "RUNS", "FAILED"}}
	for _, d := range failed {
		l := listedDelivery{
			d.ID,
			d.MerchantID,
			d.Mode,
			d.EventType,
			webhook.HostOf(d.URL),
			d.URL,
			d.Runs,
			checkout.FormatTime(d.FailedAt),
		}
		listed = append(listed, l)
		rows = append(
			rows,
			[]string{
				l.ID,
				l.MerchantID,
				string(l.Mode),
				string(l.EventType),
				l.URL,
				strconv.Itoa(l.Runs),
				l.FailedAt,
			},
		)
	}
	if asJSON {
		return c.printJSON(listed)
	}
	return c.printTable(rows...)
}
