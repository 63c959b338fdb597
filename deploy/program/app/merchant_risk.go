package app

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func flagsOfRisk(f *pflag.FlagSet) {
	f.String("mode", string(checkout.ModeLive), "`mode` of payments and balances: test or live")
}

// listedRisk is a merchant's risk in JSON.
type listedRisk struct {
	Mode            checkout.Mode      `json:"mode"`
	Payments        int                `json:"payments"`
	Volume          []merchant.Sum     `json:"volume"`
	Disputed        int                `json:"disputed"`
	DisputedPercent float64            `json:"disputed_percent"`
	Refunded        int                `json:"refunded"`
	RefundedPercent float64            `json:"refunded_percent"`
	Balances        []checkout.Balance `json:"balances"`
}

func listRisk(mode checkout.Mode, r merchant.Risk) listedRisk {
	return listedRisk{
		mode, r.Payments, append([]merchant.Sum{}, r.Volume...), r.Disputed, hundredths(r.DisputedPercent()),
		r.Refunded, hundredths(r.RefundedPercent()), append([]checkout.Balance{}, r.Balances...),
	}
}

func hundredths(n float64) float64 { return math.Round(100*n) / 100 }

func percent(n float64) string { return fmt.Sprintf("%.2f %%", n) }

func volume(r merchant.Risk) string {
	sum := func(s merchant.Sum) string { return s.Amount.String() + " " + string(s.Currency) }
	return strings.Join(each(r.Volume, sum), ", ")
}

// amounts lists one part of the balances, by currency, without those of 0.
func amounts(r merchant.Risk, part func(checkout.Balance) money.Amount) string {
	var all []string
	for _, b := range r.Balances {
		if amount := part(b); amount != 0 {
			all = append(all, amount.String()+" "+string(b.Currency))
		}
	}
	return strings.Join(all, ", ")
}

func available(b checkout.Balance) money.Amount { return b.Available }
func pending(b checkout.Balance) money.Amount   { return b.Pending }
func reserved(b checkout.Balance) money.Amount  { return b.Reserved }
func owed(b checkout.Balance) money.Amount      { return b.Owed }

func (c keylessCall) listMerchants(ctx context.Context) (result, error) {
	risks, err := c.Merchants.MerchantRisks(ctx, c.mode())
	list := newTable(":ID", ":NAME", ":PLAN", ":PAYMENTS", ":VOLUME", ":DISPUTED", ":REFUNDED", ":OWES", ":PENDING",
		":AVAILABLE", ":RESERVED", ":SUSPENDED")
	for _, r := range risks {
		list.add(r.ID, r.Name, r.Plan, r.Payments, volume(r), percent(r.DisputedPercent()), percent(r.RefundedPercent()),
			amounts(r, owed), amounts(r, pending), amounts(r, available), amounts(r, reserved), r.Suspended)
	}
	type listed struct {
		listedMerchant
		listedRisk
	}
	all := each(risks, func(r merchant.Risk) listed { return listed{listMerchant(r.Merchant), listRisk(c.mode(), r)} })
	return resultOf(err, data{all}, list)
}

// addRisk adds the risk of a merchant to the rows of merchant show.
func addRisk(rows *table, mode checkout.Mode, r merchant.Risk) {
	days := fmt.Sprintf("in %d days, %s mode", merchant.RiskDays, mode)
	rows.add("payments "+days, r.Payments)
	rows.add("volume "+days, volume(r))
	rows.add("disputed "+days, fmt.Sprintf("%d (%s)", r.Disputed, percent(r.DisputedPercent())))
	rows.add("refunded "+days, fmt.Sprintf("%d (%s)", r.Refunded, percent(r.RefundedPercent())))
	rows.add(fmt.Sprintf("owes, %s mode", mode), amounts(r, owed))
	rows.add(fmt.Sprintf("pending, %s mode", mode), amounts(r, pending))
	rows.add(fmt.Sprintf("available, %s mode", mode), amounts(r, available))
	rows.add(fmt.Sprintf("reserved, %s mode", mode), amounts(r, reserved))
}
