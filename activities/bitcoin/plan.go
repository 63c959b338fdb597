package bitcoin

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Rules of the fee. Source: api/decisions/bitcoin.md, "fee of a Bitcoin payout".
var (
	largestFee    = big.NewRat(5, 100)  // of a gross payout: above it the payout is too small
	largestBudget = big.NewRat(10, 100) // of the gross payouts: what a transfer may cost at most
)

const (
	leastBudget = sats(20_000)

	// A change becomes a coin that can be spent once it is final, about an hour later. So a wallet with few coins
	// splits it, and one with many combines small ones while that is cheap.
	fewCoins   = 60
	splitFrom  = sats(2_000_000)
	manyCoins  = 200
	cheapRate  = rate(5 * perKilo)
	smallWorth = 3 // times what it costs to spend it: a smaller coin stays where it is
)

// Plan implements treasury.Chain. The coins of the plan cover what the transfer may cost in every version. A payout
// pays its share of the fee, by the size of its output.
func (c *Chain) Plan(
	ctx context.Context, payouts []treasury.TransferRequest, taken treasury.Slot,
) (_ treasury.TransferPlan, err error) {
	defer checkout.Wrap(&err, "bitcoin: plan")
	plan, err := c.plan(ctx, payouts, taken)
	if some, ok := errors.AsType[treasury.PayoutErrors](err); ok && len(payouts) == 1 {
		err = some[payouts[0].PayoutID]
	}
	return plan, err
}

func (c *Chain) plan(
	ctx context.Context, payouts []treasury.TransferRequest, taken treasury.Slot,
) (treasury.TransferPlan, error) {
	if len(payouts) == 0 || len(payouts) > mostPayouts {
		return treasury.TransferPlan{}, fmt.Errorf("a transfer pays 1 to %d payouts, not %d", mostPayouts, len(payouts))
	}
	v, err := c.view(ctx)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	price, err := c.prices(ctx)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	if err := c.affordable(price.now); err != nil {
		return treasury.TransferPlan{}, err
	}
	free, err := c.coins(ctx, taken)
	if err != nil {
		return treasury.TransferPlan{}, err
	}
	d := draft{Chain: c, free: free, terms: terms{Rate: price.now, Height: v.head, Version: restricted}}
	if err := d.read(payouts); err != nil {
		return treasury.TransferPlan{}, err
	}
	if err := d.choose(); err != nil {
		return treasury.TransferPlan{}, err
	}
	if err := d.share(); err != nil {
		return treasury.TransferPlan{}, err
	}
	d.combine()
	if err := d.giveChange(ctx); err != nil {
		return treasury.TransferPlan{}, err
	}
	return d.plan()
}

// A draft is a plan that is being made.
type draft struct {
	*Chain
	terms

	free    []coin // that the draft does not have, the largest first
	payouts []treasury.TransferRequest
	weights []int64 // of their outputs
	outputs []treasury.TransferOutput
}

// faults returns the errors of payouts, nil without any.
func faults(of treasury.PayoutErrors) error {
	if len(of) == 0 {
		return nil
	}
	return of
}

// read reads the requests.
func (d *draft) read(payouts []treasury.TransferRequest) error {
	d.payouts, d.weights = payouts, make([]int64, len(payouts))
	wrong := treasury.PayoutErrors{}
	for i, p := range payouts {
		script, err := d.script(p.Destination)
		if gross, fault := satsOf(p.Gross); err == nil && (fault != nil || gross == 0) {
			err = fmt.Errorf("%q is not a positive amount of BTC", p.Gross.Named())
		}
		if err == nil && p.Burnt.Known() {
			_, err = satsOf(p.Burnt)
		}
		if err != nil {
			wrong[p.PayoutID] = err
			continue
		}
		d.weights[i] = outputWeight(script)
	}
	return faults(wrong)
}

// choose chooses the coins. Payouts for which there are none are faults.
func (d *draft) choose() error {
	gross := sats(0)
	for _, p := range d.payouts {
		gross += sats(p.Gross.Units().Int64())
	}
	d.Budget = max(int64(leastBudget), int64(floor(gross, largestBudget)))
	// The outputs and the fee are within the gross amounts, and more of the fee within the budget.
	chosen, free, ok := choose(d.free, gross+sats(d.Budget)+leastChange)
	if ok {
		d.Coins, d.free = chosen, free
		return nil
	}
	short := treasury.PayoutErrors{}
	most := sum(d.free[:min(len(d.free), mostInputs)]) - leastBudget - leastChange
	for _, p := range d.payouts {
		needs := sats(p.Gross.Units().Int64())
		if needs += floor(needs, largestBudget); needs <= most {
			most -= needs
		} else {
			short[p.PayoutID] = fmt.Errorf("%w: final coins for %s", treasury.ErrFloatTooLow, p.Gross.Named())
		}
	}
	return faults(short)
}

func floor(of sats, share *big.Rat) sats {
	return sats(money.FloorCrypto(new(big.Rat).Mul(of.crypto().Coins(), share), money.BTC).Units().Int64())
}

// share gives each payout its share of the fee.
func (d *draft) share() error {
	small := treasury.PayoutErrors{}
	each := shares(d.shared(d.weights), d.weights)
	for i, p := range d.payouts {
		gross, burnt := sats(p.Gross.Units().Int64()), sats(0)
		if p.Burnt.Sign() > 0 {
			burnt = sats(p.Burnt.Units().Int64())
			if d.Burnt == nil {
				d.Burnt = make([]int64, len(d.payouts))
			}
			d.Burnt[i] = int64(burnt)
		}
		fee := each[i] + burnt
		if each[i] > floor(gross, largestFee) || gross-fee < leastChange {
			small[p.PayoutID] = fmt.Errorf("%w: %s of %s", treasury.ErrTooSmall, fee.crypto(), p.Gross.Named())
		}
		d.outputs = append(d.outputs, treasury.TransferOutput{
			PayoutID: p.PayoutID, Destination: p.Destination, Amount: (gross - fee).crypto(), Fee: fee.crypto()})
	}
	return faults(small)
}

// combine adds small coins while size is cheap and the wallet has many.
func (d *draft) combine() {
	if d.Rate > cheapRate {
		return
	}
	for len(d.free) > manyCoins && d.Extra < mostExtra && len(d.Coins) < mostInputs {
		last := d.free[len(d.free)-1]
		d.free = d.free[:len(d.free)-1]
		if sats(last.Sats) >= smallWorth*d.Rate.of(last.Weight/4) {
			d.Coins, d.Extra = append(d.Coins, last), d.Extra+1
		}
	}
}

// giveChange gives what is left to fresh addresses of the wallet.
func (d *draft) giveChange(ctx context.Context) error {
	left := sum(d.Coins)
	for _, o := range d.outputs {
		left -= sats(o.Amount.Units().Int64())
	}
	d.Change = make([]change, 1)
	if len(d.free) < fewCoins && left-sats(d.Budget) >= splitFrom {
		d.Change = make([]change, 2)
	}
	d.Fee = int64(d.Rate.of(d.size(d.weights)))
	d.Budget = max(d.Budget, d.Fee)
	left -= sats(d.Fee)
	for i := range d.Change {
		if err := d.node.Call(ctx, &d.Change[i].Address, "getrawchangeaddress", "bech32"); err != nil {
			return err
		}
		d.Change[i].Sats = int64(left) / int64(len(d.Change))
	}
	d.Change[0].Sats += int64(left) % int64(len(d.Change))
	if err := d.checkChange(ctx, d.terms); err != nil {
		return err
	}
	return d.prepareSigner(ctx, d.terms)
}

// plan returns the finished plan.
func (d *draft) plan() (treasury.TransferPlan, error) {
	plan := treasury.TransferPlan{Outputs: d.outputs, MaxCost: sats(d.Fee).crypto()}
	for _, coin := range d.Coins {
		plan.Slot = append(plan.Slot, coin.Unit)
	}
	for _, o := range d.outputs {
		plan.Fee = plan.Fee.Add(o.Fee)
	}
	var err error
	if plan.Terms, err = d.encode(); err != nil {
		return treasury.TransferPlan{}, err
	}
	return plan, d.checkTerms(plan, d.terms)
}
