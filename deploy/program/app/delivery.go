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
	return parentOf(&cobra.Command{
		Use:   "delivery",
		Short: "List permanently failed deliveries",
		Long:  `Lists deliveries of all merchants. It needs DATABASE_URL and no other setting.`,
	}, c.deliveryFailedCommand())
}

func (c *call) deliveryFailedCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:   "failed",
		Short: "List permanently failed deliveries, most recent first",
		Long: `Lists the permanently failed deliveries of all merchants, most recent first.

A replayed delivery is listed only if the replay failed too. Temporal's UI cannot show this: a failed
run stays Failed there, even if a later run succeeded. checkout replay whd_… replays a delivery.
URLs are shown without their query, which often holds a secret.`,
		Example: "  checkout delivery failed --limit 10",
		Args:    words(),
		PreRunE: func(*cobra.Command, []string) error {
			if limit < 1 {
				return errors.New("--limit must be 1 or more")
			}
			return nil
		},
		RunE: c.operator(func(ctx context.Context, c console, _ []string) error { return c.listFailed(ctx, limit) }),
	}
	command.Flags().IntVar(&limit, "limit", 100, "print at most `n` deliveries")
	return c.addJSON(command)
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

func (c console) listFailed(ctx context.Context, limit int) error {
	failed, err := c.Webhooks.FailedDeliveries(ctx, limit)
	if err != nil {
		return err
	}
	listed := make([]listedDelivery, 0, len(failed))
	rows := [][]string{{"ID", "MERCHANT", "MODE", "EVENT", "URL", "RUNS", "FAILED"}}
	for _, d := range failed {
		l := listedDelivery{
			d.ID, d.MerchantID, d.Mode, d.EventType, webhook.HostOf(d.URL), d.URL, d.Runs, checkout.FormatTime(d.FailedAt),
		}
		listed = append(listed, l)
		rows = append(rows, []string{
			l.ID, l.MerchantID, string(l.Mode), string(l.EventType), l.URL, strconv.Itoa(l.Runs), l.FailedAt,
		})
	}
	return c.printList(listed, rows...)
}
