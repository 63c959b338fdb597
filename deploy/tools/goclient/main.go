// Goclient is what a merchant writes around a Go client that oapi-codegen generated from
// api/openapi.yaml. The test of the package api generates the client beside it, in a copy of this
// directory; without the client it does not compile.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
)

// amounts are such that a float of 32 bits holds other ones: 300000.34 and 1000000.
var amounts = []float64{300000.33, 999999.99, 0.5, 10.1}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: goclient URL KEY")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run creates a session for each of amounts, reads it again and prints the amount that came back.
func run(ctx context.Context, url, key string) error {
	client, err := NewClientWithResponses(
		url,
		WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+key)
			return nil
		}),
	)
	if err != nil {
		return err
	}
	for _, amount := range amounts {
		var items Metadata_AdditionalProperties
		if err := items.FromMetadata1(3); err != nil {
			return err
		}
		created, err := client.CreateSessionWithResponse(ctx, nil, SessionRequest{
			Amount: number[Amount](
				amount,
			), Currency: "EUR", PayoutCurrency: "USDC", Metadata: &Metadata{"items": items},
		})
		if err != nil {
			return err
		}
		if created.JSON201 == nil {
			return fmt.Errorf("create answered %s: %s", created.Status(), created.Body)
		}
		read, err := client.GetSessionWithResponse(ctx, created.JSON201.Id)
		if err != nil {
			return err
		}
		if read.JSON200 == nil {
			return errors.New("get answered " + read.Status())
		}
		fmt.Printf("%.2f %.2f\n", created.JSON201.Amount, read.JSON200.Amount)
	}
	return nil
}

// number converts to whichever type the generator chose.
func number[T ~float32 | ~float64](n float64) T { return T(n) }
