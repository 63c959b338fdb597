package api

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/workflows/webhook"
)

// documentAt returns the value at a path of names in the document, nil when there is none.
func documentAt(t *testing.T, path ...string) any {
	var value any
	require.NoError(t, yaml.Unmarshal(document, &value))
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func schemasIn(t *testing.T) map[string]any {
	return documentAt(t, "components", "schemas").(map[string]any)
}

// referenceIn returns the name of the schema to which a schema refers, "" for none.
func referenceIn(schema any) string {
	object, _ := schema.(map[string]any)
	to, _ := object["$ref"].(string)
	return strings.TrimPrefix(to, "#/components/schemas/")
}

// eachObject calls visit with every object in a value, apart from examples.
func eachObject(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for name, member := range value {
			if !strings.HasPrefix(name, "example") {
				eachObject(member, visit)
			}
		}
	case []any:
		for _, element := range value {
			eachObject(element, visit)
		}
	}
}

// TestOpenAPI_OnlyRequestsAreClosed: fields may be added to answers and events, so no client may
// refuse a field there that it does not know.
func TestOpenAPI_OnlyRequestsAreClosed(t *testing.T) {
	t.Parallel()
	requests := []string{"LineItemRequest", "EvidenceTexts", "EvidenceFiles"} // parts of others
	eachObject(documentAt(t, "paths"), func(operation map[string]any) {
		if body, ok := operation["requestBody"].(map[string]any); ok {
			media := body["content"].(map[string]any)["application/json"].(map[string]any)
			requests = append(requests, referenceIn(media["schema"]))
		}
	})
	for name, schema := range schemasIn(t) {
		if slices.Contains(requests, name) {
			require.Equal(t, false, schema.(map[string]any)["additionalProperties"], "%s is a request: unknown fields are refused", name)
			continue
		}
		eachObject(schema, func(object map[string]any) {
			require.NotEqual(t, false, object["additionalProperties"], "%s is no request", name)
			require.NotContains(t, object, "unevaluatedProperties", "%s is no request", name)
		})
	}
}

// TestOpenAPI_TheCurrencyDecidesHowAnAmountIsWritten holds api/decisions/objects.md, "amounts": fiat is a
// number, crypto is a string, and so is a rate. A new amount needs a line here.
func TestOpenAPI_TheCurrencyDecidesHowAnAmountIsWritten(t *testing.T) {
	t.Parallel()
	const number, text = "number", "string"
	want := map[string]string{
		"SessionRequest.amount": number, "Session.amount": number, "Transaction.amount": number, "Transaction.fee": number,
		"Transaction.net": number, "Payout.source_amount": number, "Plan.fee_fixed": number,
		"LineItemRequest.unit_amount": number, "LineItem.unit_amount": number,
		"Deduction.amount": number, "Deduction.owed": number, "Refund.amount": number, "Refund.fee_returned": number,
		"Dispute.amount": number, "Dispute.fee": number,
		"Balance.pending": number, "Balance.available": number, "Balance.reserved": number, "Balance.owed": number,
		"BalanceTransaction.amount": number, "BalanceTransaction.fee": number, "BalanceTransaction.net": number,
		"Payout.amount": text, "Payout.fee": text, "Payout.exchange_rate": text, "Payout.locked_exchange_rate": text,
		"Transaction.exchange_rate": text,
	}
	got := map[string]string{}
	for name, schema := range schemasIn(t) {
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for property, of := range properties {
			switch to := referenceIn(of); {
			case of.(map[string]any)["type"] == number || to == "Amount":
				got[name+"."+property] = number
			case strings.HasSuffix(to, "Decimal"):
				got[name+"."+property] = text
			}
		}
	}
	require.Equal(t, want, got)
}

// A new event type begins with its row in webhook.kinds. This test then names each place that lacks it.
func TestEventTypes_WhateverListsThemHasThemAll(t *testing.T) {
	t.Parallel()
	var names, schemas, ofInterface []string
	mapping := map[string]any{}
	for _, typ := range webhook.EventTypes {
		names, schemas = append(names, string(typ)), append(schemas, typ.Schema())
		mapping[string(typ)] = "#/components/schemas/" + typ.Schema()
		if !typ.OptIn() {
			ofInterface = append(ofInterface, string(typ))
		}
	}
	eventSchema := func(path ...string) any {
		return documentAt(t, append([]string{"components", "schemas"}, path...)...)
	}
	texts := func(list any) (all []string) {
		for _, text := range list.([]any) {
			all = append(all, fmt.Sprint(text))
		}
		return all
	}

	require.Equal(t, names, texts(eventSchema("EventName", "enum")), "openapi.yaml: EventName")
	require.Equal(t, append(slices.Clone(names), "*"), texts(eventSchema("EventChoice", "items", "enum")), "openapi.yaml: EventChoice")
	var union []string
	for _, schema := range eventSchema("Event", "oneOf").([]any) {
		union = append(union, referenceIn(schema))
	}
	require.Equal(t, schemas, union, "openapi.yaml: Event")
	require.Equal(t, mapping, eventSchema("Event", "discriminator", "mapping"), "openapi.yaml: Event")
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(documentAt(t, "webhooks").(map[string]any))), "openapi.yaml: webhooks")

	for file, all := range map[string][]string{
		"README.md":                     names,
		"interface.md":                  ofInterface,
		"sdk/models.gen.go":             names,
		"sdk/typescript/src/openapi.ts": names,
		"sdk/webhook.go":                schemas,
		"../deploy/tools/clients/oapicodegen/main.go": names,
		"../deploy/tools/clients/typescript/main.ts":  names,
		"../deploy/tools/clients/ogen/main.go":        schemas,
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, each := range all {
			require.True(t, strings.Contains(string(text), each), "%s lacks %s", file, each)
		}
	}
}
