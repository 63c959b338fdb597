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
	check:  reading(func(c *call) (time.Time, error) { return parseDay(c.text("day"), time.Now()) }),
	run:    withKeyless(keylessCall.reportDay),
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
	day := c.order.(time.Time)
	r, err := c.Books.DayReport(ctx, day)
	if err != nil {
		return nil, err
	}
	date, agrees := day.Format(time.DateOnly), "The ledger agrees."
	if !r.Agrees() {
		agrees = "The ledger does not agree: see the column DIFFERENCE."
	}
	object := map[string]any{"day": date, "ledger_agrees": r.Agrees()}
	got := result{data{object}, fmt.Sprintf("The live books of %s, UTC", date)}
	for _, part := range booksOf(r) {
		if part.key != "" {
			object[part.key] = part.objects()
		}
		if part.key != "booked" { // the earnings show it to people
			got = append(got, "", part.orNone())
		}
	}
	return append(got, "", agrees), nil
}

// A part of a report is a table under a key in JSON, "" for people only. Every amount is a decimal in a string.
type part struct {
	key string
	*table
}

// booksOf returns the parts of a report in their order.
func booksOf(r storage.DayReport) []part {
	charges := newTable(
		"plan:PLAN", "fee:FEE", "number:CHARGES", "sum:SUM", "earned:EARNED", "acquirer_cost:ACQUIRER'S COST",
		"margin:MARGIN", "currency:CURRENCY", "acquirer_cost_unknown:COST NOT KNOWN YET",
	)
	for _, p := range r.Plans {
		charges.add(p.Plan, p.Fee(), p.Charges, p.Sum, p.Earned, p.Cost, p.Margin(), p.Currency, p.CostUnknown)
	}
	booked := newTable("account", "asset", "amount")
	for _, d := range r.Booked {
		booked.add(d.Account, d.Asset, d.Amount)
	}
	refunds := newTable("reason:REFUNDS", "status:STATE", "number:NUMBER", "sum:SUM", "currency:CURRENCY")
	for _, d := range r.Refunds {
		refunds.add(d.Reason, d.Status, d.Refunds, d.Sum, d.Currency)
	}
	disputes := newTable("type:DISPUTES", "number:NUMBER", "sum:SUM", "currency:CURRENCY")
	for _, d := range r.Disputes {
		disputes.add(d.Type, d.Disputes, d.Sum, d.Currency)
	}
	payouts := newTable(
		"state:PAYOUTS", "number:NUMBER", "sum:SUM", "currency:CURRENCY", "source_sum:FROM", "source_currency:CURRENCY",
	)
	for _, p := range r.Payouts {
		payouts.add(p.State, p.Payouts, p.Sum, p.Currency, p.Source, p.SourceCurrency)
	}
	ledger := newTable("what:LEDGER NOW", "asset:ASSET", "ledger:BOOKED", "expected:SHOULD BE", "under_way:UNDER WAY",
		"difference:DIFFERENCE")
	for _, k := range r.Checks {
		ledger.add(k.What, k.Asset, k.Ledger, k.Expected, k.UnderWay, k.Difference)
	}
	findings := newTable("kind:OPEN FINDING", "id", "opened_at:SINCE", "subject:ABOUT", "detail:WHAT DIFFERS")
	for _, f := range r.Findings {
		findings.add(f.Kind, f.ID, showTime(&f.OpenedAt), f.Subject, f.Detail)
	}
	return []part{
		{"charges", charges}, {"booked", booked}, {"", earnings(r.Booked)}, {"refunds", refunds}, {"disputes", disputes},
		{"payouts", payouts}, {"float", floatTable(r.Floats)}, {"ledger", ledger}, {"open_findings", findings},
	}
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
