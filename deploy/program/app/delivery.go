package app

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var deliveryCommand = command{
	use:   "delivery",
	short: "List permanently failed deliveries",
	long:  `Lists deliveries of all merchants. It needs DATABASE_URL and no other setting.`,
	children: []command{{
		use:   "failed",
		short: "List permanently failed deliveries, most recent first",
		long: `Lists the permanently failed deliveries of all merchants, most recent first.

A replayed delivery is listed only if the replay failed too. Temporal's UI cannot show this: a failed
run stays Failed there, even if a later run succeeded. checkout replay whd_… replays a delivery.
URLs are shown without their query, which often holds a secret.`,
		example: "  checkout delivery failed --limit 10",
		args:    words(),
		flags:   func(f *pflag.FlagSet) { f.Int("limit", 100, "print at most `n` deliveries") },
		asJSON:  true,
		check: func(c *call) error {
			if c.number("limit") < 1 {
				return errors.New("--limit must be 1 or more")
			}
			return nil
		},
		run: withKeyless(keylessCall.failedDeliveries),
	}},
}

func (c keylessCall) failedDeliveries(ctx context.Context) (result, error) {
	failed, err := c.Webhooks.FailedDeliveries(ctx, c.number("limit"))
	list := newTable(
		"id:ID", "merchant_id:MERCHANT", "mode:MODE", "event_type:EVENT", "host", "url:URL", "runs:RUNS", "failed_at:FAILED",
	)
	for _, d := range failed {
		list.add(d.ID, d.MerchantID, d.Mode, d.EventType, webhook.HostOf(d.URL), d.URL, d.Runs, d.FailedAt)
	}
	return resultOf(err, list)
}

var replayCommand = command{
	use:   "replay whd_…",
	short: "Replay a delivery",
	long: `Replays a delivery: a new run of the same workflow id, with the same event and as many
attempts as a new delivery. It works even after Temporal has removed the history of earlier runs. The
merchant's audit log gets an entry.`,
	example: "  checkout replay whd_06gztkasqmwac4tmdh4b4ta89w",
	args:    idAnd(checkout.PrefixDelivery, "checkout delivery failed"),
	run:     withStore(storeCall.replay),
}

// replay starts a new run of a delivery.
func (c storeCall) replay(ctx context.Context) (result, error) {
	d, err := c.Webhooks.AnyDelivery(ctx, c.args[0])
	if err != nil {
		return nil, explain(err, checkout.ErrNotFound, "there is no delivery %s", c.args[0])
	}
	err = c.withActions(ctx, func(actions action.Actions) error {
		_, err := actions.ReplayDelivery(ctx, d, action.Operator)
		return err
	})
	err = explain(err, webhook.ErrDeliveryInProgress,
		"delivery %s is still in progress: its attempts continue automatically", d.ID)
	err = explain(err, webhook.ErrEndpointDeleted,
		"the webhook of delivery %s was deleted: nothing more is sent to it", d.ID)
	return resultLine(err, "started run %d of %s (%s to %s)", d.Run+1, d.ID, d.EventType, d.Dispatch().Host)
}
