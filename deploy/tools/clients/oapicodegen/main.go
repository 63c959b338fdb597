// Oapicodegen is what a merchant writes around a Go client that oapi-codegen generated from the
// served OpenAPI document. The test of deploy/proof/e2e generates the client beside it, in a copy
// of this directory; without the client it does not compile.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

// amounts are such that a float of 32 bits holds other ones: 300000.34 and 1000000.
var amounts = []float64{300000.33, 999999.99, 0.5, 10.1}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: oapicodegen URL KEY WEBHOOK")
	}
	url, key, webhook := os.Args[1], os.Args[2], os.Args[3]
	client, err := NewClientWithResponses(url, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	check(err)
	ctx := context.Background()
	sessions(ctx, client)
	events(ctx, client, webhook)
}

// sessions creates sessions, reads them, pages through them, meets a refusal and expires one.
func sessions(ctx context.Context, client *ClientWithResponses) {
	var last *CreatedSession
	for _, amount := range amounts {
		read, err := client.GetSessionWithResponse(ctx, create(ctx, client, amount, fmt.Sprint("order-", amount)).JSON201.Id)
		check(err)
		fmt.Printf("amount %.2f\n", read.JSON200.Amount)
	}
	last = create(ctx, client, 20, "order-20").JSON201

	limit, pages, seen := 2, 0, 0
	for cursor := (*Cursor)(nil); pages == 0 || cursor != nil; pages++ {
		page, err := client.ListSessionsWithResponse(ctx, &ListSessionsParams{Limit: &limit, Cursor: cursor})
		check(err)
		seen += len(page.JSON200.Data)
		cursor = page.JSON200.NextCursor
	}
	fmt.Println("pages", pages, "sessions", seen)

	refusal, err := create(ctx, client, 20, "order-20").JSON409.ValueByDiscriminator()
	check(err)
	switch e := refusal.(type) {
	case OrderIdInUse:
		fmt.Println("refused", e.Error, e.Status, e.SessionId == last.Id)
	case IdempotencyConflict:
		log.Fatal("narrowed to the wrong error")
	}
	expired, err := client.ExpireSessionWithResponse(ctx, last.Id, nil)
	check(err)
	fmt.Println(expired.JSON200.Status, expired.JSON200.Payout == nil)
}

func create(ctx context.Context, client *ClientWithResponses, amount float64, order string) *CreateSessionResponse {
	var id Metadata_AdditionalProperties
	check(id.FromMetadata0(order))
	created, err := client.CreateSessionWithResponse(ctx, nil, SessionRequest{
		Amount: amount, Currency: EUR, PayoutCurrency: USDC, Metadata: &Metadata{"order_id": id},
	})
	check(err)
	return created
}

// events registers a webhook, lets it get an event of each type, reads the events and replays one.
func events(ctx context.Context, client *ClientWithResponses, url string) {
	webhook, err := client.CreateWebhookWithResponse(ctx, nil, WebhookRequest{Url: url, Events: EventChoice{"*"}})
	check(err)
	var delivery DeliveryId
	for _, typ := range []EventName{"checkout.completed", "checkout.failed", "payout.sent", "payout.failed",
		"merchant.updated", "refund.succeeded", "refund.failed", "dispute.opened", "dispute.closed", "payout.reduced"} {
		sent, err := client.SendTestEventWithResponse(ctx, webhook.JSON201.Id, nil, TestEventRequest{Type: &typ})
		check(err)
		delivery = sent.JSON202.Delivery.Id
	}
	list, err := client.ListEventsWithResponse(ctx, nil)
	check(err)
	for _, event := range list.JSON200.Data {
		narrowed, err := event.ValueByDiscriminator()
		check(err)
		switch e := narrowed.(type) {
		case CheckoutCompleted:
			fmt.Printf("%s %.2f\n", e.Type, e.Data.Amount)
		case CheckoutFailed:
			fmt.Println(e.Type, e.Data.Failure.Code)
		case PayoutSent:
			fmt.Println(e.Type, *e.Data.Amount)
		case PayoutFailed:
			fmt.Println(e.Type, e.Data.Failure.Code)
		case MerchantUpdated:
			fmt.Println(e.Type, len(e.Data.Changed))
		case RefundSucceeded:
			fmt.Printf("%s %.2f\n", e.Type, e.Data.Amount)
		case RefundFailed:
			fmt.Println(e.Type, e.Data.Failure.Code)
		case DisputeOpened:
			fmt.Println(e.Type, e.Data.Status)
		case DisputeClosed:
			fmt.Println(e.Type, e.Data.Status)
		case PayoutReduced:
			fmt.Printf("%s %.2f\n", e.Type, (*e.Data.Deductions)[0].Amount)
		}
	}
	for attempt := 0; ; attempt++ {
		got, err := client.GetDeliveryWithResponse(ctx, delivery)
		check(err)
		if got.JSON200.Status == "delivered" {
			replayed, err := client.ReplayDeliveryWithResponse(ctx, delivery, nil)
			check(err)
			if replayed.JSON202 != nil { // 409 delivery_in_progress until the first run has ended
				fmt.Println("replayed", replayed.JSON202.Id == delivery)
				break
			}
		}
		if attempt == 600 {
			log.Fatal("not delivered: ", got.JSON200.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
	deleted, err := client.DeleteWebhookWithResponse(ctx, webhook.JSON201.Id)
	check(err)
	fmt.Println("deleted", deleted.JSON200.Deleted)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
