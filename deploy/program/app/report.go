package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

func (c *call) reportCommand() *cobra.Command {
	var day string
	var from time.Time
	command := &cobra.Command{
		Use:   "report",
		Short: "Show the live books of a day and check the ledger",
		Long: `Shows the live books of a UTC day: charges with their revenue and cost, refunds, disputes and payouts.
Then it compares the current ledger with the expected one, and lists the open findings. It needs
DATABASE_URL and no other setting, and it changes nothing.`,
		Example: `  checkout report --day 2026-11-22
  checkout report --json`,
		Args: words(),
		PreRunE: func(*cobra.Command, []string) (err error) {
			from, err = parseDay(day, time.Now())
			return err
		},
		RunE: c.operator(func(ctx context.Context, c console, _ []string) error { return c.report(ctx, from) }),
	}
	command.Flags().StringVar(&day, "day", "", "the `date`, such as 2026-11-22 (default yesterday)")
	return c.addJSON(command)
}

// parseDay returns the begin of a day, "" for the one before now.
func parseDay(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -1), nil
	}
	day, err := time.Parse(time.DateOnly, text)
	switch {
	case err != nil:
		return day, fmt.Errorf("--day must be a date such as 2026-11-22, not %q", text)
	case day.After(now):
		return day, fmt.Errorf("--day %s is in the future", text)
	}
	return day, nil
}

// shownReport is a report in the output of --json. Every amount is a decimal in a string.
type shownReport struct {
	Day      string            `json:"day"`
	Plans    []shownPlan       `json:"charges"`
	Booked   []shownBooking    `json:"booked"`
	Refunds  []shownRefunds    `json:"refunds"`
	Disputes []shownDisputes   `json:"disputes"`
	Payouts  []shownPayouts    `json:"payouts"`
	Floats   []shownFloat      `json:"float"`
	Checks   []shownCheck      `json:"ledger"`
	Agrees   bool              `json:"ledger_agrees"`
	Findings []shownDayFinding `json:"open_findings"`
}

type shownPlan struct {
	Plan        string `json:"plan"`
	Fee         string `json:"fee"`
	Currency    string `json:"currency"`
	Number      int    `json:"number"`
	Sum         string `json:"sum"`
	Earned      string `json:"earned"`
	Cost        string `json:"acquirer_cost"`
	CostUnknown int    `json:"acquirer_cost_unknown"`
	Margin      string `json:"margin"`
}

type shownBooking struct {
	Account string `json:"account"`
	Asset   string `json:"asset"`
	Amount  string `json:"amount"`
}

type shownRefunds struct {
	Reason   string `json:"reason"`
	Status   string `json:"status"`
	Currency string `json:"currency"`
	Number   int    `json:"number"`
	Sum      string `json:"sum"`
}

type shownDisputes struct {
	Type     string `json:"type"`
	Currency string `json:"currency"`
	Number   int    `json:"number"`
	Sum      string `json:"sum"`
}

type shownPayouts struct {
	State          string `json:"state"`
	Currency       string `json:"currency"`
	Number         int    `json:"number"`
	Sum            string `json:"sum"`
	SourceCurrency string `json:"source_currency"`
	Source         string `json:"source_sum"`
}

type shownFloat struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	Balance  string `json:"balance"`
	Live     string `json:"live"`
	Pending  string `json:"pending"`
	DaysLeft string `json:"days_left"`
}

type shownCheck struct {
	What       string `json:"what"`
	Asset      string `json:"asset"`
	Ledger     string `json:"ledger"`
	Expected   string `json:"expected"`
	UnderWay   string `json:"under_way"`
	Difference string `json:"difference"`
}

type shownDayFinding struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	Since   string `json:"opened_at"`
}

// showReport converts a report. An empty list is [] and not null.
func showReport(day time.Time, r storage.DayReport) shownReport {
	return shownReport{
		Day: day.Format(time.DateOnly),
		Plans: each(r.Plans, func(p storage.PlanDay) shownPlan {
			return shownPlan{
				p.Plan, p.Fee().String(), string(p.Currency), p.Charges, p.Sum.String(), p.Earned.String(), p.Cost.String(),
				p.CostUnknown, p.Margin().String(),
			}
		}),
		Booked: each(r.Booked, func(b storage.BookedDay) shownBooking { return shownBooking(b) }),
		Refunds: each(r.Refunds, func(d storage.RefundDay) shownRefunds {
			return shownRefunds{string(d.Reason), string(d.Status), string(d.Currency), d.Refunds, d.Sum.String()}
		}),
		Disputes: each(r.Disputes, func(d storage.DisputeDay) shownDisputes {
			return shownDisputes{d.Type, string(d.Currency), d.Disputes, d.Sum.String()}
		}),
		Payouts: each(r.Payouts, func(p storage.PayoutDay) shownPayouts {
			return shownPayouts{p.State, string(p.Currency), p.Payouts, p.Sum, string(p.SourceCurrency), p.Source.String()}
		}),
		Floats: each(r.Floats, showFloat),
		Checks: each(r.Checks, func(k storage.LedgerCheck) shownCheck { return shownCheck(k) }),
		Agrees: r.Agrees(),
		Findings: each(r.Findings, func(f checkout.Finding) shownDayFinding {
			return shownDayFinding{f.ID, string(f.Kind), f.Subject, f.Detail, showTime(&f.OpenedAt)}
		}),
	}
}

func showFloat(f storage.Float) shownFloat {
	return shownFloat{
		f.AccountID, string(f.Balance.Currency()), f.Balance.String(), f.Live.String(), f.Pending.String(), f.DaysLeft(),
	}
}

// floatTable is a table of what the treasury has, and how long it lasts.
func floatTable(all []shownFloat) [][]string {
	rows := [][]string{{"FLOAT NOW", "BALANCE", "LIVE", "PENDING", "DAYS LEFT", "ACCOUNT"}}
	for _, f := range all {
		rows = append(rows, []string{f.Currency, f.Balance, f.Live, f.Pending, f.DaysLeft, f.Account})
	}
	return rows
}

// each converts a list.
func each[From, To any](all []From, convert func(From) To) []To {
	converted := make([]To, 0, len(all))
	for _, one := range all {
		converted = append(converted, convert(one))
	}
	return converted
}

func (c console) report(ctx context.Context, day time.Time) error {
	r, err := c.DayReport(ctx, day)
	if err != nil {
		return err
	}
	shown := showReport(day, r)
	if c.asJSON {
		return c.printJSON(shown)
	}
	_, err = fmt.Fprintf(c.out, "The live books of %s, UTC\n", shown.Day)
	return errors.Join(err, c.printDay(shown), c.printChecks(shown))
}

// printDay prints what happened on the day.
func (c console) printDay(r shownReport) error {
	charges := [][]string{{
		"PLAN", "FEE", "CHARGES", "SUM", "EARNED", "ACQUIRER'S COST", "MARGIN", "CURRENCY", "COST NOT KNOWN YET",
	}}
	for _, p := range r.Plans {
		charges = append(charges, []string{
			p.Plan, p.Fee, fmt.Sprint(p.Number), p.Sum, p.Earned, p.Cost, p.Margin, p.Currency, fmt.Sprint(p.CostUnknown),
		})
	}
	results := [][]string{{"EARNED AND SPENT, AS BOOKED", "AMOUNT", "ASSET"}}
	for _, b := range r.Booked {
		if name := resultNames[b.Account]; name != "" {
			results = append(results, []string{name, opposite(b.Amount), b.Asset})
		}
	}
	refunds := [][]string{{"REFUNDS", "STATE", "NUMBER", "SUM", "CURRENCY"}}
	for _, d := range r.Refunds {
		refunds = append(refunds, []string{d.Reason, d.Status, fmt.Sprint(d.Number), d.Sum, d.Currency})
	}
	disputes := [][]string{{"DISPUTES", "NUMBER", "SUM", "CURRENCY"}}
	for _, d := range r.Disputes {
		disputes = append(disputes, []string{d.Type, fmt.Sprint(d.Number), d.Sum, d.Currency})
	}
	payouts := [][]string{{"PAYOUTS", "NUMBER", "SUM", "CURRENCY", "FROM", "CURRENCY"}}
	for _, p := range r.Payouts {
		payouts = append(payouts, []string{p.State, fmt.Sprint(p.Number), p.Sum, p.Currency, p.Source, p.SourceCurrency})
	}
	return c.printTables(charges, results, refunds, disputes, payouts)
}

// resultNames are the accounts of the ledger that earn or cost something.
var resultNames = map[string]string{
	"revenue:fee":         "fees of payments",
	"revenue:network_fee": "network fees that merchants paid",
	"expense:acquirer":    "cost of the acquirer",
	"expense:gas":         "gas",
}

// opposite changes the sign of a decimal. In the ledger, what was earned is negative.
func opposite(amount string) string {
	if positive, negative := strings.CutPrefix(amount, "-"); negative {
		return positive
	}
	return "-" + amount
}

// printChecks prints whether the ledger is as it should be.
func (c console) printChecks(r shownReport) error {
	ledger := [][]string{{"LEDGER NOW", "ASSET", "BOOKED", "SHOULD BE", "UNDER WAY", "DIFFERENCE"}}
	for _, k := range r.Checks {
		ledger = append(ledger, []string{k.What, k.Asset, k.Ledger, k.Expected, k.UnderWay, k.Difference})
	}
	findings := [][]string{{"OPEN FINDING", "SINCE", "ABOUT", "WHAT DIFFERS"}}
	for _, f := range r.Findings {
		findings = append(findings, []string{f.Kind, f.Since, f.Subject, f.Detail})
	}
	verdict := "The ledger agrees."
	if !r.Agrees {
		verdict = "The ledger does not agree: see the column DIFFERENCE."
	}
	err := c.printTables(floatTable(r.Floats), ledger, findings)
	_, said := fmt.Fprintf(c.out, "\n%s\n", verdict)
	return errors.Join(err, said)
}

// printTables prints tables with an empty line before each. A table without rows says so.
func (p printer) printTables(tables ...[][]string) error {
	for _, table := range tables {
		if len(table) == 1 {
			table = [][]string{{table[0][0] + ": none"}}
		}
		fmt.Fprintln(p.out) // an error comes again with the table
		if err := p.printTable(table...); err != nil {
			return err
		}
	}
	return nil
}
