package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// node is a place in the document.
type node struct{ *yaml.Node }

// member returns the value of a name in a mapping, a node of nil when there is none.
func (n node) member(name string) node {
	if n.Node != nil && n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return node{n.Content[i+1]}
			}
		}
	}
	return node{}
}

// keys returns the names in a mapping.
func (n node) keys() []string {
	var all []string
	if n.Node != nil {
		for i := 0; i < len(n.Content); i += 2 {
			all = append(all, n.Content[i].Value)
		}
	}
	return all
}

// text returns the value of a scalar member, "" when there is none.
func (n node) text(name string) string {
	if m := n.member(name); m.Node != nil {
		return m.Value
	}
	return ""
}

// values returns the scalars of a list.
func (n node) values() []string {
	var all []string
	for _, child := range n.Content {
		all = append(all, child.Value)
	}
	return all
}

// walk calls visit with n and everything below it, apart from examples.
func (n node) walk(visit func(node)) {
	visit(n)
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && (i%2 == 0 || strings.HasPrefix(n.Content[i-1].Value, "example")) {
			continue
		}
		node{child}.walk(visit)
	}
}

// references returns the names of the schemas to which a list's members refer.
func (n node) references() []string {
	var names []string
	if n.Node != nil {
		for _, child := range n.Content {
			if name, ok := strings.CutPrefix(node{child}.text("$ref"), "#/components/schemas/"); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func parsedDocument(t *testing.T) node {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(document, &root))
	return node{root.Content[0]}
}

// TestOpenAPI_OnlyRequestsAreClosed: fields may be added to answers and events, so no client may
// refuse a field there that it does not know.
func TestOpenAPI_OnlyRequestsAreClosed(t *testing.T) {
	t.Parallel()
	root := parsedDocument(t)
	requests := map[string]bool{}
	root.member("paths").walk(func(n node) {
		name := n.member("requestBody").member("content").member("application/json").member("schema").text("$ref")
		requests[strings.TrimPrefix(name, "#/components/schemas/")] = name != ""
	})
	requests["LineItemRequest"] = true // a part of SessionRequest
	schemas := root.member("components").member("schemas")
	for i := 0; i < len(schemas.Content); i += 2 {
		name, schema := schemas.Content[i].Value, node{schemas.Content[i+1]}
		if requests[name] {
			require.Equal(t, "false", schema.text("additionalProperties"), "%s is a request: unknown fields are refused", name)
			continue
		}
		schema.walk(func(n node) {
			require.NotEqual(t, "false", n.text("additionalProperties"), "openapi.yaml:%d: %s is no request", n.Line, name)
			require.Nil(t, n.member("unevaluatedProperties").Node, "openapi.yaml:%d: %s is no request", n.Line, name)
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
		"Payout.amount": text, "Payout.fee": text, "Payout.exchange_rate": text, "Payout.locked_exchange_rate": text,
		"Transaction.exchange_rate": text,
	}
	got := map[string]string{}
	schemas := parsedDocument(t).member("components").member("schemas")
	for i := 0; i < len(schemas.Content); i += 2 {
		properties := node{schemas.Content[i+1]}.member("properties")
		if properties.Node == nil {
			continue
		}
		for j := 0; j < len(properties.Content); j += 2 {
			place := schemas.Content[i].Value + "." + properties.Content[j].Value
			switch property := (node{properties.Content[j+1]}); {
			case property.text("type") == number || strings.HasSuffix(property.text("$ref"), "/Amount"):
				got[place] = number
			case strings.HasSuffix(property.text("$ref"), "Decimal"):
				got[place] = text
			}
		}
	}
	require.Equal(t, want, got)
}
