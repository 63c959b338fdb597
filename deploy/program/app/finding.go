package app

import (
	"context"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

var findingCommand = command{
	use:   "finding",
	short: "Show discrepancies of the books, and close settled ones",
	long: `A finding is a discrepancy between the books and the card network or a chain that a person should explain, or a
merchant above a limit. Most close automatically when the discrepancy is gone. Lost disputes and failed refunds stay
until an operator closes them.`,
	children: []command{
		{
			use:    "list",
			short:  "List the open findings",
			args:   words(),
			flags:  func(f *pflag.FlagSet) { f.String("mode", string(checkout.ModeLive), "test or live") },
			values: map[string][]string{"mode": modes},
			check:  (*call).checkMode,
			run:    withStore(storeCall.listFindings),
		},
		{
			use:   "close fnd_…",
			short: "Close a settled finding",
			long: `Closes a settled finding and stores the reason with it. A remaining discrepancy is found again within
minutes. The audit log of the charge's merchant gets an entry, without the reason.`,
			example: `  checkout finding close fnd_06gztkasqmwac4tmdh4b4ta89w --reason "the customer was paid by bank transfer"`,
			args:    idAnd(checkout.PrefixFinding, "checkout finding list"),
			flags:   func(f *pflag.FlagSet) { f.String("reason", "", "how it was settled (required)") },
			check:   func(c *call) error { return c.checkLabel("reason") },
			run:     withStore(storeCall.closeFinding),
		},
	},
}

func (c storeCall) listFindings(ctx context.Context) (result, error) {
	findings, err := c.Books.OpenFindings(ctx, c.mode())
	return resultOf(err, findingsTable(findings))
}

func (c storeCall) closeFinding(ctx context.Context) (result, error) {
	id := c.args[0]
	err := c.Books.CloseFinding(ctx, id, c.text("reason"),
		merchant.AuditEntry{Actor: action.Operator.Actor, Action: "finding.closed"})
	err = explain(err, checkout.ErrNotFound, "there is no finding %s; checkout finding list shows them", id)
	err = explain(err, checkout.ErrConflict, "%s is already closed", id)
	return resultLine(err, "%s is closed", id)
}

func findingsTable(findings []books.Finding) *table {
	list := newTable(":FINDING", ":KIND", ":SINCE", ":ABOUT", ":WHAT DIFFERS")
	for _, f := range findings {
		list.add(f.ID, f.Kind, f.OpenedAt, f.Subject, f.Detail)
	}
	return list
}
