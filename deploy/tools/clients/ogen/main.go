// Ogen is what a merchant writes around a Go client that ogen generated from the served OpenAPI
// document. The test of deploy/proof/e2e generates the client below it, in a copy of this
// directory; without the client it does not compile.
package main

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"time"

	"example.com/checkout/deploy/tools/clients/ogen/client"
)

// amounts are such that a float of 32 bits holds other ones: 300000.34 and 1000000.
var amounts = []float64{300000.33, 999999.99, 0.5, 10.1}

// key is an API key.
type key string

// ApiKey tells the client how to authenticate.
func (k key) ApiKey(context.Context, client.OperationName) (client.ApiKey, error) {
	return client.ApiKey{Token: string(k)}, nil
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: ogen URL KEY WEBHOOK")
	}
	c, err := client.NewClient(os.Args[1], key(os.Args[2]))
	check(err)
	ctx := context.Background()
	sessions(ctx, c)
	events(ctx, c, os.Args[3])
}

// must returns an answer as the type that it must have.
func must[T any](answer any, err error) T {
	check(err)
	got, ok := answer.(T)
	if !ok {
		log.Fatalf("the answer is a %T: %+v", answer, answer)
	}
	return got
}

// sessions creates sessions, reads them, pages through them, meets a refusal and expires one.
func sessions(ctx context.Context, c *client.Client) {
	for _, amount := range amounts {
		created := must[*client.CreatedSessionHeaders](create(ctx, c, amount, fmt.Sprint("order-", amount)))
		read := must[*client.SessionHeaders](c.GetSession(ctx, client.GetSessionParams{ID: created.Response.ID}))
		fmt.Printf("amount %.2f\n", read.Response.Amount)
	}
	last := must[*client.CreatedSessionHeaders](create(ctx, c, 20, "order-20")).Response

	pages, seen := 0, 0
	for cursor := (client.OptString{}); pages == 0 || cursor.Set; pages++ {
		page := must[*client.SessionListHeaders](c.ListSessions(ctx,
			client.ListSessionsParams{Limit: client.NewOptInt(2), Cursor: cursor})).Response
		seen += len(page.Data)
		cursor = client.OptString{}
		if next, ok := page.NextCursor.Get(); ok {
			cursor = client.NewOptString(next)
		}
	}
	fmt.Println("pages", pages, "sessions", seen)

	refusal := must[*client.CreateConflictHeaders](create(ctx, c, 20, "order-20")).Response
	switch refusal.Type {
	case client.OrderIdInUseCreateConflict:
		e := refusal.OrderIdInUse
		fmt.Println("refused", e.Error, e.Status, e.SessionID == last.ID)
	default:
		log.Fatal("narrowed to the wrong error")
	}
	expired := must[*client.ExpireSessionOKHeaders](c.ExpireSession(ctx, client.ExpireSessionParams{ID: last.ID})).Response
	fmt.Println(expired.Status, expired.Payout.Null)
}

func create(ctx context.Context, c *client.Client, amount float64, order string) (client.CreateSessionRes, error) {
	return c.CreateSession(ctx, &client.SessionRequest{
		Amount: amount, Currency: client.CurrencyEUR, PayoutCurrency: client.PayoutCurrencyUSDC,
		Metadata: client.NewOptNilMetadata(client.Metadata{"order_id": client.NewStringMetadataItem(order)}),
	}, client.CreateSessionParams{})
}

// events registers a webhook, lets it get an event of each type, reads the events and replays one.
func events(ctx context.Context, c *client.Client, hook string) {
	webhook := must[*client.WebhookWithSecretHeaders](c.CreateWebhook(ctx, &client.WebhookRequest{
		URL: parsed(hook), Events: client.EventChoice{"*"},
	}, client.CreateWebhookParams{})).Response
	var delivery client.DeliveryId
	for _, name := range client.EventName("").AllValues() {
		sent := must[*client.TestEventHeaders](c.SendTestEvent(ctx, client.NewOptTestEventRequest(client.TestEventRequest{
			Type: client.NewOptNilEventName(name),
		}), client.SendTestEventParams{ID: webhook.ID})).Response
		delivery = sent.Delivery.ID
	}
	for _, event := range must[*client.EventListHeaders](c.ListEvents(ctx, client.ListEventsParams{})).Response.Data {
		switch event.Type {
		case client.CheckoutCompletedEvent:
			e := event.CheckoutCompleted
			fmt.Printf("%s %.2f\n", e.Type, e.Data.Amount)
		case client.CheckoutFailedEvent:
			fmt.Println(event.CheckoutFailed.Type, event.CheckoutFailed.Data.Failure.Value.Code)
		case client.PayoutSentEvent:
			fmt.Println(event.PayoutSent.Type, event.PayoutSent.Data.Amount.Value)
		case client.PayoutFailedEvent:
			fmt.Println(event.PayoutFailed.Type, event.PayoutFailed.Data.Failure.Value.Code)
		case client.MerchantUpdatedEvent:
			fmt.Println(event.MerchantUpdated.Type, len(event.MerchantUpdated.Data.Changed))
		case client.RefundSucceededEvent:
			fmt.Printf("%s %.2f\n", event.RefundSucceeded.Type, event.RefundSucceeded.Data.Amount)
		case client.RefundFailedEvent:
			fmt.Println(event.RefundFailed.Type, event.RefundFailed.Data.Failure.Value.Code)
		case client.DisputeOpenedEvent:
			fmt.Println(event.DisputeOpened.Type, event.DisputeOpened.Data.Status)
		case client.DisputeClosedEvent:
			fmt.Println(event.DisputeClosed.Type, event.DisputeClosed.Data.Status)
		case client.PayoutReducedEvent:
			fmt.Printf("%s %.2f\n", event.PayoutReduced.Type, event.PayoutReduced.Data.Deductions[0].Amount)
		}
	}
	for attempt := 0; ; attempt++ {
		got := must[*client.DeliveryWithAttemptsHeaders](c.GetDelivery(ctx, client.GetDeliveryParams{ID: delivery})).Response
		if got.Status == client.DeliveryStatusDelivered {
			answer, err := c.ReplayDelivery(ctx, client.ReplayDeliveryParams{ID: delivery})
			check(err)
			if replayed, ok := answer.(*client.HoldDeliveryOKHeaders); ok { // 409 until the first run has ended
				fmt.Println("replayed", replayed.Response.ID == delivery)
				break
			}
		}
		if attempt == 600 {
			log.Fatal("not delivered: ", got.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
	deleted := must[*client.DeletionHeaders](c.DeleteWebhook(ctx, client.DeleteWebhookParams{ID: webhook.ID})).Response
	fmt.Println("deleted", deleted.Deleted)
}

// parsed returns an address as the generated client wants it.
func parsed(address string) url.URL {
	u, err := url.Parse(address)
	check(err)
	return *u
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
