package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"example.com/checkout/storage"
)

var reportCommand = command{
	use:   "report",
	short: "Show the live books of a day and check the ledger",
	long: `Shows the live books of a UTC day: charges with their revenue and cost, refunds, disputes and payouts.
Then it compares the current ledger with the expected one, and lists the open findings. It needs
DATABASE_URL and no other setting, and it changes nothing.`,
	example: `  checkout report --day 2026-11-22
  checkout report --json`,
	args:   words(),
	flags:  func(f *pflag.FlagSet) { f.String("day", "", "the `date`, such as 2026-11-22 (default yesterday)") },
	asJSON: true,
	check: func(c *call) error {
		_, err := parseDay(c.text("day"), time.Now())
		return err
	},
	run: withKeyless(keylessCall.reportDay),
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

func (c keylessCall) reportDay(ctx context.Context) (result, error) {
	day, err := parseDay(c.text("day"), time.Now())
	if err != nil {
		return nil, err
	}
	r, err := c.Books.DayReport(ctx, day)
	if err != nil {
		return nil, err
	}
	date, books := day.Format(time.DateOnly), booksOf(r)
	got := result{data{map[string]any{
		"day": date, "charges": books.charges.objects(), "booked": books.booked.objects(),
		"refunds": books.refunds.objects(), "disputes": books.disputes.objects(), "payouts": books.payouts.objects(),
		"float": books.floats.objects(), "ledger": books.ledger.objects(), "ledger_agrees": r.Agrees(),
		"open_findings": books.findings.objects(),
	}}, fmt.Sprintf("The live books of %s, UTC", date)}
	for _, list := range []*table{
		books.charges, earnings(r.Booked), books.refunds, books.disputes, books.payouts, books.floats, books.ledger,
		books.findings,
	} {
		got = append(got, "", list.orNone())
	}
	if !r.Agrees() {
		return append(got, "", "The ledger does not agree: see the column DIFFERENCE."), nil
	}
	return append(got, "", "The ledger agrees."), nil
}

// dayBooks are the tables of a report. Every amount is a decimal in a string.
type dayBooks struct {
	charges, booked, refunds, disputes, payouts, floats, ledger, findings *table
}

func booksOf(r storage.DayReport) dayBooks {
	b := dayBooks{
		charges: newTable(
			"plan:PLAN", "fee:FEE", "number:CHARGES", "sum:SUM", "earned:EARNED", "acquirer_cost:ACQUIRER'S COST",
			"margin:MARGIN", "currency:CURRENCY", "acquirer_cost_unknown:COST NOT KNOWN YET",
		),
		booked:   newTable("account", "asset", "amount"),
		refunds:  newTable("reason:REFUNDS", "status:STATE", "number:NUMBER", "sum:SUM", "currency:CURRENCY"),
		disputes: newTable("type:DISPUTES", "number:NUMBER", "sum:SUM", "currency:CURRENCY"),
		payouts: newTable(
			"state:PAYOUTS", "number:NUMBER", "sum:SUM", "currency:CURRENCY", "source_sum:FROM", "source_currency:CURRENCY",
		),
		floats: floatTable(r.Floats),
		ledger: newTable(
			"what:LEDGER NOW", "asset:ASSET", "ledger:BOOKED", "expected:SHOULD BE", "under_way:UNDER WAY",
			"difference:DIFFERENCE",
		),
		findings: newTable("kind:OPEN FINDING", "id", "opened_at:SINCE", "subject:ABOUT", "detail:WHAT DIFFERS"),
	}
	for _, p := range r.Plans {
		b.charges.add(p.Plan, p.Fee(), p.Charges, p.Sum, p.Earned, p.Cost, p.Margin(), p.Currency, p.CostUnknown)
	}
	for _, d := range r.Booked {
		b.booked.add(d.Account, d.Asset, d.Amount)
	}
	for _, d := range r.Refunds {
		b.refunds.add(d.Reason, d.Status, d.Refunds, d.Sum, d.Currency)
	}
	for _, d := range r.Disputes {
		b.disputes.add(d.Type, d.Disputes, d.Sum, d.Currency)
	}
	for _, p := range r.Payouts {
		b.payouts.add(p.State, p.Payouts, p.Sum, p.Currency, p.Source, p.SourceCurrency)
	}
	for _, k := range r.Checks {
		b.ledger.add(k.What, k.Asset, k.Ledger, k.Expected, k.UnderWay, k.Difference)
	}
	for _, f := range r.Findings {
		b.findings.add(f.Kind, f.ID, showTime(&f.OpenedAt), f.Subject, f.Detail)
	}
	return b
}

// floatTable is a table of what the treasury has, and how long it lasts.
func floatTable(all []storage.Float) *table {
	floats := newTable(
		"currency:FLOAT NOW", "balance:BALANCE", "live:LIVE", "pending:PENDING", "days_left:DAYS LEFT", "account:ACCOUNT",
	)
	for _, f := range all {
		floats.add(f.Balance.Currency(), f.Balance, f.Live, f.Pending, f.DaysLeft(), f.AccountID)
	}
	return floats
}

// earnings is a table of what the entries of the day earned and spent.
func earnings(booked []storage.BookedDay) *table {
	earned := newTable("name:EARNED AND SPENT, AS BOOKED", "amount:AMOUNT", "asset:ASSET")
	for _, b := range booked {
		if name := earningNames[b.Account]; name != "" {
			earned.add(name, opposite(b.Amount), b.Asset)
		}
	}
	return earned
}

// earningNames are the accounts of the ledger that earn or cost something.
var earningNames = map[string]string{
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
