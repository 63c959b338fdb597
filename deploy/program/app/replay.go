package app

import (
	"context"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func (c *call) replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay whd_…",
		Short: "Replay a delivery",
		Long: `Replays a delivery: a new run of the same workflow id, with the same event and as many
attempts as a new delivery. It works even after Temporal has removed the history of earlier runs. The
merchant's audit log gets an entry.`,
		Example: "  checkout replay whd_06gztkasqmwac4tmdh4b4ta89w",
		Args:    idAnd(checkout.PrefixDelivery, "checkout delivery failed"),
		RunE:    c.storing(c.replay),
	}
}

// replay starts a new run of a delivery.
func (c *call) replay(ctx context.Context, cfg config.Config, store *storage.Store, deliveryID string) error {
	d, err := store.Webhooks.AnyDelivery(ctx, deliveryID)
	if err != nil {
		return explained(err, checkout.ErrNotFound, "there is no delivery %s", deliveryID)
	}

	err = acting(ctx, cfg, store, func(actions action.Actions) error {
		_, err := actions.ReplayDelivery(ctx, d, action.Operator)
		return err
	})
	err = explained(err, webhook.ErrDeliveryInProgress,
		"delivery %s is still in progress: its attempts continue automatically", d.ID)
	err = explained(err, webhook.ErrEndpointDeleted,
		"the webhook of delivery %s was deleted: nothing more is sent to it", d.ID)
	return c.said(err, "started run %d of %s (%s to %s)\n", d.Run+1, d.ID, d.EventType, d.Dispatch().Host)
}
