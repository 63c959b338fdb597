package app

import (
	"context"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func (c *call) findingCommand() *cobra.Command {
	return parentOf(&cobra.Command{
		Use:   "finding",
		Short: "Show discrepancies of the books, and close settled ones",
		Long: `A finding is a discrepancy between the books and the card network or a chain that a person should explain. Most
close automatically when the discrepancy is gone. Lost disputes and failed refunds stay until an operator closes them.`,
	}, c.findingListCommand(), c.findingCloseCommand())
}

func (c *call) findingListCommand() *cobra.Command {
	var mode string
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the open findings",
		Args:    words(),
		PreRunE: checksMode(&mode),
		RunE: c.stored(func(ctx context.Context, store *storage.Store, _ string) error {
			findings, err := store.Books.OpenFindings(ctx, checkout.Mode(mode))
			if err != nil {
				return err
			}
			return c.printFindings(findings)
		}),
	}
	command.Flags().StringVar(&mode, "mode", string(checkout.ModeLive), "test or live")
	completes(command, "mode", string(checkout.ModeTest), string(checkout.ModeLive))
	return command
}

func (c *call) findingCloseCommand() *cobra.Command {
	var why string
	command := &cobra.Command{
		Use:   "close fnd_…",
		Short: "Close a settled finding",
		Long: `Closes a settled finding and stores the reason with it. A remaining discrepancy is found again within
minutes. The audit log of the charge's merchant gets an entry, without the reason.`,
		Example: `  checkout finding close fnd_06gztkasqmwac4tmdh4b4ta89w --reason "the customer was paid by bank transfer"`,
		Args:    idAnd(checkout.PrefixFinding, "checkout finding list"),
		RunE: c.stored(func(ctx context.Context, store *storage.Store, id string) error {
			return c.closeFinding(ctx, store, id, why)
		}),
	}
	command.Flags().StringVar(&why, "reason", "", "how it was settled (required)")
	return command
}

func (c *call) closeFinding(ctx context.Context, store *storage.Store, id, why string) error {
	if err := checkWords("reason", why); err != nil {
		return err
	}
	err := store.Books.CloseFinding(ctx, id, why,
		merchant.AuditEntry{Actor: action.Operator.Actor, Action: "finding.closed"})
	err = explained(err, checkout.ErrNotFound, "there is no finding %s; checkout finding list shows them", id)
	err = explained(err, checkout.ErrConflict, "%s is already closed", id)
	return c.said(err, "%s is closed\n", id)
}

func (p printer) printFindings(findings []books.Finding) error {
	rows := [][]string{{"FINDING", "KIND", "SINCE", "ABOUT", "WHAT DIFFERS"}}
	for _, f := range findings {
		rows = append(rows, []string{f.ID, string(f.Kind), showTime(&f.OpenedAt), f.Subject, f.Detail})
	}
	return p.printTable(rows...)
}
