// Shop is a small shop that takes payments with the SDK: it creates a session, sends the customer to
// the hosted page, verifies the webhook, keeps each event once, and fulfils each order once.
//
//	CHECKOUT_API_URL=http://127.0.0.1:8080 CHECKOUT_API_KEY=sk_test_… WEBHOOK_SECRET=whsec_… PORT=3000 go run .
//
// Open http://127.0.0.1:3000/shop. Register https://your-host/webhook. It listens on this computer
// only: TLS is the business of the proxy before it.
//
// It answers webhooks as the shop in TypeScript and the receiver in Python (deploy/release/receivers) do:
//
//   - 404 to another path than /webhook, compared as it was sent; what follows a ? does not matter.
//   - 405 to another method than POST.
//   - 400 to a body that did not arrive as a whole, has more than 1 MiB or is not signed, or was signed more than five
//     minutes ago, and to what is signed and not an event: an object in JSON (UTF-8, no byte
//     order mark, at most 100 levels deep)
//     whose id is evt_ and 1 to 64 of 0-9, A-Z, a-z and _. Of two members of a name the last counts.
//   - 200 to an event, also when it comes again.
//
// What is not proper HTTP is refused by the server of each language in its own way.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/checkout/api/sdk"
)

// shop sells one thing.
type shop struct {
	api     *sdk.Client
	address string // of the shop, as the customer's browser reaches it
	secret  string // of the webhook
	inbox   inbox
	works   sync.WaitGroup
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path, _, _ := strings.Cut(r.RequestURI, "?"); {
	case path == "/webhook":
		s.webhook(w, r)
	case path == "/shop" && r.Method == http.MethodPost:
		s.buy(w, r)
	case path == "/shop":
		page(w, `<form method="post"><button>Buy a teapot for 59.97 EUR</button></form>`)
	case path == "/thanks":
		page(w, "Thank you. We send the teapot when the payment has arrived.") // only the webhook proves that it has
	default:
		http.NotFound(w, r)
	}
}

func page(w http.ResponseWriter, html string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, "<!doctype html><title>Shop</title><p>%s</p>", html) // an error means that the browser has gone
}

// buy creates an order and its session, and sends the customer to the hosted page.
func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	order := rand.Text() // a real shop writes the order into its database first
	var orderID sdk.Metadata_AdditionalProperties
	if err := orderID.FromMetadata0(order); err != nil {
		log.Print(err)
	}
	thanks := s.address + "/thanks"
	session, err := s.api.CreateSession(r.Context(), "order-"+order, sdk.SessionRequest{
		Amount: 59.97, Currency: sdk.EUR, PayoutCurrency: sdk.USDC, RedirectUrl: &thanks, Metadata: &sdk.Metadata{"order_id": orderID},
	})
	if err != nil {
		log.Print(err) // an *sdk.APIError has a code and the request's id
		http.Error(w, "the payment cannot be started now", http.StatusBadGateway)
		return
	}
	http.Redirect(w, r, session.Url, http.StatusSeeOther)
}

// webhook takes a delivery: it verifies it, keeps the event, and answers before it does the work.
func (s *shop) webhook(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST /webhook", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, sdk.MaxBody+1))
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body) // the rest is read too: leaving early would cut the answer off
	}
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	event, err := sdk.ConstructEvent(body, r.Header, s.secret)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	isNew, err := s.inbox.keep(event, body)
	if err != nil {
		log.Print(err)
		http.Error(w, "try again later", http.StatusInternalServerError) // it is sent again
		return
	}
	if isNew {
		s.works.Go(func() { s.inbox.work(event) })
	}
	// A duplicate is a 200 too: it was accepted before, and anything else would only bring it again.
	w.WriteHeader(http.StatusOK)
}

// process is your part: ship the goods, write the accounts. It runs after the answer, so it may take its time.
func process(received sdk.Received) error {
	switch event := received.Event.(type) {
	case sdk.CheckoutCompleted:
		order, err := event.Data.Metadata["order_id"].AsMetadata0()
		if err != nil {
			break // a payment of something else
		}
		if err := fulfil(order, event.Data.SessionId); err != nil {
			return err
		}
	case sdk.PayoutFailed:
		log.Print("a person must look at the payout ", event.Data.Id)
	}
	fmt.Println("processed", received.ID, received.Type)
	return nil
}

// fulfil ships an order once, whatever comes twice. Its mark is a file of its own; a real shop changes the order's row from
// open to shipped.
func fulfil(order, session string) error {
	mark, err := os.OpenFile(filepath.Join("orders", session), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("fulfilled", order)
	return mark.Close()
}

// inbox is a directory with a file for each event that was ever accepted, and an empty file .done
// beside it when it has been processed. A real shop has a table instead, in its own database: the
// event's id in a unique column, inserted in the same transaction as the effect. Here a crash
// between process and .done makes the work happen twice, there it cannot.
type inbox string

// keep stores an event and reports whether it is new. It is on disk before it is answered: after a 200 it never comes
// again. A link, unlike a write, is made as a whole or not at all, and fails when there is one.
func (in inbox) keep(e sdk.Received, body []byte) (isNew bool, err error) {
	file, err := os.CreateTemp(string(in), "*.tmp")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(file.Name()) }() // the link stays
	_, err = file.Write(body)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return false, err
	}
	err = os.Link(file.Name(), filepath.Join(string(in), e.ID+".json"))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// work processes an event and notes that it did.
func (in inbox) work(e sdk.Received) {
	if err := process(e); err != nil {
		log.Print(err) // it is processed again after the next start
		return
	}
	if err := os.WriteFile(filepath.Join(string(in), e.ID+".done"), nil, 0o600); err != nil {
		log.Print(err) // it is processed again after the next start
	}
}

// unfinished returns what was accepted and not processed when the program last ended.
func (in inbox) unfinished() ([]sdk.Received, error) {
	names, err := filepath.Glob(filepath.Join(string(in), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []sdk.Received
	for _, name := range names {
		if _, err := os.Stat(strings.TrimSuffix(name, ".json") + ".done"); err == nil {
			continue
		}
		body, err := os.ReadFile(name) // #nosec G304 -- a file of our own directory
		if err != nil {
			return nil, err
		}
		e, err := sdk.ParseStored(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, e)
	}
	return all, nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	setting := map[string]string{}
	for _, name := range []string{"CHECKOUT_API_URL", "CHECKOUT_API_KEY", "WEBHOOK_SECRET", "PORT"} {
		if setting[name] = os.Getenv(name); setting[name] == "" {
			return errors.New(name + " must be set")
		}
	}
	listen := net.JoinHostPort("127.0.0.1", setting["PORT"])
	s := &shop{
		api: sdk.NewClient(setting["CHECKOUT_API_URL"], setting["CHECKOUT_API_KEY"]), address: "http://" + listen,
		secret: setting["WEBHOOK_SECRET"], inbox: "webhook-events",
	}
	for _, dir := range []string{string(s.inbox), "orders"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	unfinished, err := s.inbox.unfinished()
	if err != nil {
		return err
	}
	for _, e := range unfinished {
		s.works.Go(func() { s.inbox.work(e) })
	}

	server := &http.Server{
		Addr: listen, Handler: s, ReadTimeout: 10 * time.Second,
		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * with 200
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// What has begun is finished; what comes now is sent again later.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(ctx)
	s.works.Wait()
	return err
}
