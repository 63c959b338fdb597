package worker

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/contract"
)

var updateNames = flag.Bool("update-names", false, "write testdata/names.txt anew")

// TestNames_StayAsStored: histories have the JSON of inputs, messages and results, so open runs and scheduled
// activities need the names with which an earlier version wrote it. A new name is added to the list. One that is
// renamed or removed leaves open runs that the next version refuses: see "Changing a workflow" in workflows/README.md.
func TestNames_StayAsStored(t *testing.T) {
	t.Parallel()
	const file = "testdata/names.txt"
	lines := slices.Concat(
		namesOf("CheckoutSession", workflows.CheckoutSession, 0), namesOf("Payout", workflows.Payout, 0),
		namesOf("Refund", workflows.Refund, 0), namesOf("DisputeEvidence", workflows.DisputeEvidence, 0),
		namesOf("WebhookDelivery", workflows.WebhookDelivery, 0), namesOf("WebhookReplay", workflows.WebhookReplay, 0),
		namesOf("MerchantUpdate", workflows.MerchantUpdate, 0), namesOf("PictureFetch", workflows.PictureFetch, 0),
		namesOf("Retention", workflows.Retention, 0), namesOf("TreasurySync", workflows.TreasurySync, 0),
		namesOf("Books", workflows.Books, 0),
		namesOf("pay", func(contract.PayInput) contract.PaymentResult { panic("") }, 0),
		namesOf("complete", func(contract.CompleteInput) contract.PaymentResult { panic("") }, 0),
		namesOf("expire, advance, status", func() contract.SessionState { panic("") }, 0),
	)
	for _, group := range []any{
		&activities.Payments{}, &activities.Deliveries{}, &activities.Pictures{}, &activities.Housekeeping{},
		&activities.Treasury{}, &activities.Books{},
	} {
		for method := range reflect.TypeOf(group).Methods() {
			lines = append(lines, namesOf(method.Name, method.Func.Interface(), 1)...)
		}
	}
	slices.Sort(lines)
	got := strings.Join(slices.Compact(lines), "\n") + "\n"
	if *updateNames {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}

	want := must.Get(os.ReadFile(file))(t)
	require.Equal(t, string(want), got, "with new names only, add them: go test ./worker -run TestNames -update-names")
}

// namesOf returns the names in the JSON of the arguments of a function, without the first skip, and of its results.
func namesOf(name string, function any, skip int) (names []string) {
	of := reflect.TypeOf(function)
	names = append(names, name)
	for i := skip; i < of.NumIn(); i++ {
		names = append(names, fieldsOf(of.In(i), name+" gets ")...)
	}
	for out := range of.Outs() {
		names = append(names, fieldsOf(out, name+" returns ")...)
	}
	return names
}

// fieldsOf returns the names in the JSON of a struct of this module. omitempty is a part of a name:
// without it, a new one would be missing in what an earlier version stored.
func fieldsOf(stored reflect.Type, path string) (names []string) {
	for stored.Kind() == reflect.Pointer || stored.Kind() == reflect.Slice {
		stored = stored.Elem()
	}
	if stored.Kind() != reflect.Struct || !strings.HasPrefix(stored.PkgPath(), "example.com/checkout/") {
		return nil
	}
	for field := range stored.Fields() {
		tag := field.Tag.Get("json")
		switch {
		case field.Anonymous && tag == "":
			names = append(names, fieldsOf(field.Type, path)...)
		case field.IsExported():
			names = append(names, path+tag)
			key, _, _ := strings.Cut(tag, ",")
			names = append(names, fieldsOf(field.Type, path+key+".")...)
		}
	}
	return names
}
