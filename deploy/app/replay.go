package app

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/workflows/runs"

	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/config"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// replay starts a delivery again. It needs PostgreSQL's row only, so it works
// after Temporal has dropped the history.
func replay(ctx context.Context, cfg config.Config, args []string) error {
	if len(args) != 1 || !checkout.IsID(checkout.PrefixDelivery, args[0]) {
		return errors.New("usage: checkout replay whd_…")
	}
	store, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	d, err := store.AnyDelivery(ctx, args[0])
	if errors.Is(err, checkout.ErrNotFound) {
		return fmt.Errorf("there is no delivery %s", args[0])
	}
	if err != nil {
		return err
	}
	options, err := temporalOptions(cfg)
	if err != nil {
		return err
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("no answer from Temporal at %s: %w", cfg.TemporalAddress, err)
	}
	defer temporal.Close()
	flows := &runs.Client{Temporal: temporal}
	switch err := flows.ReplayDelivery(ctx, d); {
	case errors.Is(err, webhook.ErrDeliveryInProgress):
		return fmt.Errorf("delivery %s is still in progress: its attempts go on by themselves", d.ID)
	case err != nil:
		return err
	}
	fmt.Printf("started run %d of %s (%s to %s)\n", d.Run+1, d.ID, d.EventType, d.Dispatch().Host)
	return nil
}
