package api

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/webhook"
)

// A new event type begins with its row in webhook.kinds. This test then names each place that lacks it.
func TestEventTypes_WhateverListsThemHasThemAll(t *testing.T) {
	t.Parallel()
	var names, schemas []string
	mapping := map[string]any{}
	for _, typ := range webhook.EventTypes {
		names, schemas = append(names, string(typ)), append(schemas, typ.Schema())
		mapping[string(typ)] = "#/components/schemas/" + typ.Schema()
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
		"interface.md":                  names,
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
