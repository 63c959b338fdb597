package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/api/acquirer"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// reports notes the reports of the card network, in both processes.
func reports(store *storage.Store, flows *runs.Client) acquirer.Reports {
	return acquirer.Reports{Store: store, SignalComplete: flows.SignalComplete, Log: slog.Default()}
}

// noteReport stores a report. It returns whether it is new.
type noteReport func(ctx context.Context, e storage.AcquirerEvent) (fresh bool, err error)

// withReports takes the reports of the card network at their own path. An http.ServeMux would redirect
// unclean paths, which the REST API answers with 404.
func withReports(cfg config.Config, store *storage.Store, flows *runs.Client, rest http.Handler) http.Handler {
	if !cfg.Live.Cards && !cfg.Test.Cards {
		return rest
	}
	taken := acquirer.New(acquirer.Config{
		Reports: reports(store, flows), Books: flows.BooksNow, Verify: verifier(cfg.Live, cfg.Test),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == acquirer.Path {
			taken.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// verifier checks the reports that the card network sends. The secret says of which mode a report is.
func verifier(modes ...config.Networks) func([]byte, string) (storage.AcquirerEvent, error) {
	return func(payload []byte, signature string) (storage.AcquirerEvent, error) {
		var faults []error
		for _, n := range modes {
			e, err := stripe.VerifyEvent(payload, signature, n.StripeWebhookSecrets)
			if err == nil {
				return reported(n.Mode, e)
			}
			faults = append(faults, err)
		}
		return storage.AcquirerEvent{}, errors.Join(faults...)
	}
}

// listed reads the card network's list of its reports.
func listed(
	mode checkout.Mode, cards *stripe.Network,
) func(context.Context, string, time.Time) ([]storage.AcquirerEvent, bool, error) {
	return func(ctx context.Context, cursor string, since time.Time) ([]storage.AcquirerEvent, bool, error) {
		page, more, err := cards.Events(ctx, cursor, since)
		if err != nil {
			return nil, false, err
		}
		events := make([]storage.AcquirerEvent, 0, len(page))
		for _, e := range page {
			event, err := reported(mode, e)
			if err != nil {
				return nil, false, err
			}
			events = append(events, event)
		}
		return events, more, nil
	}
}

// reported turns a report of Stripe's into the service's words. A report that says that it is of the
// other mode is refused.
func reported(mode checkout.Mode, e stripe.Event) (storage.AcquirerEvent, error) {
	if e.Livemode != mode.Live() && !e.Unread {
		return storage.AcquirerEvent{}, fmt.Errorf("the report was sent to %s mode but belongs to the other mode", mode)
	}
	return storage.AcquirerEvent{
		ID: e.ID, Mode: mode, Type: e.Type, ObjectID: e.ObjectID, Reference: e.Reference, Risk: e.Risk,
		CreatedAt: e.CreatedAt, Unread: e.Unread,
	}, nil
}
