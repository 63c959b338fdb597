package service

import (
	"errors"
	"log/slog"
	"net/http"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/api/acquirer"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/runs"
)

// reports notes the reports of the card network, in both processes.
func reports(store *storage.Store, client *runs.Client) acquirer.Reports {
	return acquirer.Reports{Books: store.Books, SignalComplete: client.SignalComplete, Log: slog.Default()}
}

// withReports takes the reports of the card network at their own path. An http.ServeMux would redirect
// unclean paths, which the REST API answers with 404.
func withReports(cfg config.Config, store *storage.Store, client *runs.Client, rest http.Handler) http.Handler {
	if !cfg.Live.Cards && !cfg.Test.Cards {
		return rest
	}
	taken := acquirer.New(acquirer.Config{
		Reports: reports(store, client), Books: client.BooksNow, Verify: verifier(cfg.Live, cfg.Test),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == acquirer.Path {
			taken.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// verifier checks the reports that the card network sends. The secret determines the mode of a report.
func verifier(modes ...config.Networks) func([]byte, string) (books.AcquirerEvent, error) {
	return func(payload []byte, signature string) (books.AcquirerEvent, error) {
		for _, n := range modes {
			e, err := stripe.VerifyEvent(payload, signature, n.Mode, n.StripeWebhookSecrets)
			if !errors.Is(err, stripe.ErrEventSignature) {
				return e, err
			}
		}
		return books.AcquirerEvent{}, stripe.ErrEventSignature
	}
}
