package api

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/webhook"
)

// A new event type begins with its row in webhook.kinds. This test then names each place that lacks it.
func TestEventTypes_WhateverListsThemHasThemAll(t *testing.T) {
	t.Parallel()
	var names, schemas []string
	for _, typ := range webhook.EventTypes {
		names, schemas = append(names, string(typ)), append(schemas, typ.Schema())
	}

	schema := parsedDocument(t).member("components").member("schemas")
	require.Equal(t, names, schema.member("EventName").member("enum").values(), "openapi.yaml: EventName")
	require.Equal(t, append(names[:len(names):len(names)], "*"),
		schema.member("EventChoice").member("items").member("enum").values(), "openapi.yaml: EventChoice")
	event := schema.member("Event")
	require.Equal(t, schemas, event.member("oneOf").references(), "openapi.yaml: Event")
	mapping, webhooks := event.member("discriminator").member("mapping"), parsedDocument(t).member("webhooks")
	require.Len(t, webhooks.Content, 2*len(names), "openapi.yaml: webhooks")
	for i, name := range names {
		require.Equal(t, "#/components/schemas/"+schemas[i], mapping.text(name), "openapi.yaml: Event")
		require.NotNil(t, webhooks.member(name).Node, "openapi.yaml: webhooks has no %s", name)
	}

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
