package webhook

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// A constant without a row would be refused everywhere and have no sample.
func TestEventTypes_EachConstantHasItsRow(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "event_type.go", nil, 0)
	require.NoError(t, err)
	var declared []EventType
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			typ, named := spec.Type.(*ast.Ident)
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && named && typ.Name == "EventType" {
				text, err := strconv.Unquote(value.Value)
				require.NoError(t, err)
				declared = append(declared, EventType(text))
			}
		}
		return true
	})
	require.Equal(t, append(EventTypes, AllEvents), declared)

	samples := map[string]EventType{}
	for _, typ := range EventTypes {
		require.NotEmpty(t, typ.Words(), typ)
		sample, err := checkout.EncodeJSON(typ.Sample(merchant.Merchant{}, []byte("{}"), time.Now()))
		require.NoError(t, err)
		require.Empty(t, samples[string(sample)], "%s has the sample of another type", typ)
		samples[string(sample)] = typ
	}
}

func TestEndpoint_StarIsEveryEventType(t *testing.T) {
	t.Parallel()
	require.Equal(t, EventTypes, Endpoint{Events: []EventType{AllEvents}}.EventTypes())
	require.Equal(t, []EventType{PayoutSent}, Endpoint{Events: []EventType{PayoutSent}}.EventTypes())
}
