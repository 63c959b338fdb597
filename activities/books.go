package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// Books holds the activities that compare the books with the card network. They work for all merchants.
type Books struct {
	Store   *storage.Books
	Refunds *storage.Refunds
	// Accounts are those at the card network, by mode.
	Accounts map[checkout.Mode]Account
	// Limits are those of live merchants. The zero value has none.
	Limits storage.MerchantLimits
}

// Account is the service's account at a card network.
type Account struct {
	checkout.CardNetwork

	// Succeeded goes through the charges of the network that began in an interval. It ends after an error.
	Succeeded func(ctx context.Context, since, until time.Time) iter.Seq2[books.Charged, error]
	// Movements goes through the changes of our balance at the network in an interval. It ends after an error.
	Movements func(ctx context.Context, since, until time.Time) iter.Seq2[books.Movement, error]
	// Charged reads one charge from the network.
	Charged func(ctx context.Context, reference string) (books.Charged, error)
	// Events lists the network's reports after a cursor, oldest first, and whether there are more. With the cursor "" the
	// list begins at since.
	Events func(ctx context.Context, cursor string, since time.Time) ([]books.AcquirerEvent, bool, error)
	// Note stores a report, exactly as if the network had sent it here. It returns whether it is new.
	Note func(ctx context.Context, e books.AcquirerEvent) (bool, error)
	// Risks reads from the network what puts the payout of a charge at risk.
	Risks func(ctx context.Context, reference string) ([]books.ChargeRisk, error)
}

// book is the Books of one mode.
type book struct {
	*Books
	Account

	mode checkout.Mode
}

func (b *Books) bookOf(in contract.ModeInput) (book, error) {
	account, ok := b.Accounts[in.Mode]
	if !ok {
		return book{}, ErrNoNetwork
	}
	return book{b, account, in.Mode}, nil
}

const (
	// chargesBack is how far back what was compared may still change.
	chargesBack = 48 * time.Hour
	// comparedFirst is how much a try compares before the place of the comparison moves. Two lists of it, and the rows,
	// must take less than the activity may. After a part that took less than quickPart the next one is twice as long,
	// up to comparedAtMost. The next try begins short again: so it comes through a part that was too long for this one.
	comparedFirst  = time.Hour
	comparedAtMost = 6 * time.Hour
	quickPart      = time.Minute
	// clockAhead is how far the network's clock may be ahead of ours.
	clockAhead = time.Minute
	// unmatchedAfter is how long a charge may be without a completed session. A payment is decided long before.
	unmatchedAfter = 15 * time.Minute
)

// ReconcileChargesResult counts the results of a comparison.
type ReconcileChargesResult struct {
	Charges int `json:"charges"`
	Found   int `json:"found"` // new findings
}

// ReconcileCharges compares the charges of the card network with the transactions. The charge of a transaction whose
// session is not completed is refunded: the customer paid for nothing. Every difference becomes a finding. What a
// charge cost is booked, and what moved our balance for another reason. It also compares the sums of the ledger, and
// the counts of live merchants with their limits.
//
// The lists come last. They begin at a stored place, and it moves with each part of them: a try that ends early delays
// what is left, and nothing else.
func (b *Books) ReconcileCharges(ctx context.Context, in contract.ModeInput) (ReconcileChargesResult, error) {
	of, err := b.bookOf(in)
	if err != nil {
		return ReconcileChargesResult{}, asFinal(ctx, err, "")
	}
	var result ReconcileChargesResult
	found, err := b.Store.ReconcileLedger(ctx, of.mode)
	result.found(ctx, found)
	if in.Mode.Live() {
		found, judging := of.Store.JudgeMerchants(ctx, b.Limits)
		result.found(ctx, found)
		err = errors.Join(err, judging)
	}
	err = errors.Join(err, of.reconcile(ctx, &result, time.Now().UTC()))
	return result, asFinal(ctx, err, "")
}

// found counts and logs new findings.
func (r *ReconcileChargesResult) found(ctx context.Context, findings []books.Finding) {
	logFindings(ctx, findings)
	r.Found += len(findings)
}

// reconcile compares part after part, from where the try before has ended until now, and stores how far it is. What may
// still change is never compared for good: the round after this one begins there again. So the place is as old as what
// is compared, also in a backup or after a long outage.
//
// A part that fails stops the place, and not the parts behind it.
func (b book) reconcile(ctx context.Context, result *ReconcileChargesResult, now time.Time) error {
	place, err := b.Store.Comparison(ctx, b.mode)
	if err != nil {
		return err
	}
	unchanging := now.Add(-chargesBack)
	if place.ComparedTo.IsZero() || place.ComparedTo.After(unchanging) { // the clock of another worker was wrong
		place.ComparedTo = unchanging
	}
	if place.ReadTo.Before(place.ComparedTo) || place.ReadTo.After(now) {
		place.ReadTo = place.ComparedTo
	}
	var (
		anew      = place.ReadTo.Equal(place.ComparedTo)
		length    = comparedFirst
		failed    error
		tolerated failures
		known     []string // references of the part before: a charge may begin there, and be decided here
	)
	for from, end := place.ReadTo, now.Add(clockAhead); from.Before(end); {
		began := time.Now()
		part := interval{from, from.Add(length)}
		last := !part.to.Before(end)
		if last {
			part.to = end
		}
		known, err = b.compare(ctx, result, part, now, known)
		err = errors.Join(err, b.bookMovements(ctx, result, part))
		failed = errors.Join(failed, err)
		if failed == nil {
			place.ReadTo = part.to
		}
		if anew { // otherwise what is before ReadTo may have changed since it was compared
			place.ComparedTo = slices.MinFunc([]time.Time{place.ReadTo, unchanging}, time.Time.Compare)
		}
		if last {
			place.ReadTo = place.ComparedTo
		}
		failed = errors.Join(failed, b.Store.SetComparison(ctx, b.mode, place))
		if tolerated.pass(ctx, "the charges since "+from.UTC().Format(time.RFC3339), err) != nil {
			break
		}
		from = part.to
		if time.Since(began) < quickPart {
			length = min(2*length, comparedAtMost)
		}
	}
	return failed
}

// interval is a part of the network's lists.
type interval struct{ from, to time.Time }

// bookMovements books what moved our balance at the network.
func (b book) bookMovements(ctx context.Context, result *ReconcileChargesResult, in interval) error {
	var all []books.Movement
	for m, err := range b.Movements(ctx, in.from, in.to) {
		if err != nil {
			return err
		}
		activity.RecordHeartbeat(ctx, m.ID)
		all = append(all, m)
	}
	found, err := b.Store.BookMovements(ctx, b.mode, all)
	result.found(ctx, found)
	return err
}

// compare compares the charges of an interval with the transactions, and the transactions with the charges. It returns
// the references of the charges. known are those of the interval before.
func (b book) compare(
	ctx context.Context, result *ReconcileChargesResult, in interval, now time.Time, known []string,
) (references []string, err error) {
	for charged, err := range b.Succeeded(ctx, in.from, in.to) {
		if err != nil {
			return nil, err
		}
		activity.RecordHeartbeat(ctx, result.Charges)
		result.Charges++
		references = append(references, charged.Reference)
		f, err := b.judge(ctx, charged, now)
		if err == nil {
			err = b.recordFinding(ctx, result, charged, f)
		}
		if err != nil {
			return nil, err
		}
	}

	to := slices.MinFunc([]time.Time{in.to, now.Add(-unmatchedAfter)}, time.Time.Compare)
	uncharged, err := b.Store.Uncharged(ctx, b.mode, in.from, to, slices.Concat(known, references))
	for _, t := range uncharged {
		activity.RecordHeartbeat(ctx, result.Charges)
		err = errors.Join(err, b.findMissing(ctx, result, t))
	}
	return references, err
}

// findMissing opens the finding about a transaction whose charge is in no list, unless the network has the charge all
// the same: it may have begun long before it was decided.
func (b book) findMissing(ctx context.Context, result *ReconcileChargesResult, t storage.UnchargedTransaction) error {
	if t.Reference != "" {
		c, err := b.Charged(ctx, t.Reference)
		charged := err == nil && c.Amount > 0
		if charged || err != nil && !errors.Is(err, checkout.ErrNotFound) {
			return err
		}
	}
	return b.open(ctx, result, books.Finding{
		Kind: books.FindingChargeMissing, Subject: t.ID, Detail: "The card network knows no charge of the transaction.",
	})
}

// unbookedPage is how many older charges are read at once.
const unbookedPage = 100

// BookOldCharges reads the charges that the network had not booked while they were compared. Otherwise their money
// would count as unavailable for ever, and hold the merchant's payouts. It returns the number of new findings.
func (b *Books) BookOldCharges(ctx context.Context, in contract.ModeInput) (int, error) {
	of, err := b.bookOf(in)
	if err != nil {
		return 0, asFinal(ctx, err, "")
	}
	var (
		result ReconcileChargesResult
		before = time.Now().Add(-chargesBack - checkout.SessionLifetime)
	)
	page := func(after string) ([]string, error) {
		return b.Store.UnbookedCharges(ctx, of.mode, before, after, unbookedPage)
	}
	itself := func(reference string) string { return reference }
	err = eachRow(ctx, page, itself, func(reference string) error { return of.bookOne(ctx, &result, reference) })
	return result.Found, asFinal(ctx, err, "")
}

func (b book) bookOne(ctx context.Context, result *ReconcileChargesResult, reference string) error {
	c, err := b.Charged(ctx, reference)
	if errors.Is(err, checkout.ErrNotFound) {
		return nil // the finding charge_missing tells of it
	}
	if err != nil {
		return err
	}
	match, err := b.Store.ChargeMatch(ctx, b.mode, reference)
	if err != nil {
		return err
	}
	if !c.Cost.Valid() {
		return b.open(ctx, result, books.Finding{
			Kind: books.FindingChargeLate, Subject: match.TransactionID,
			Detail: "The card network has not booked the charge for two days.",
		})
	}
	err = b.Store.RecordChargeCost(ctx, b.mode, match.TransactionID, *c.Cost)
	return errors.Join(err, b.Store.CloseFindings(ctx, b.mode, []string{match.TransactionID},
		books.FindingChargeMissing, books.FindingChargeLate))
}

// judge returns the finding about a charge, nil when all is well. It orders the refund of a charge
// without a completed session.
func (b book) judge(ctx context.Context, c books.Charged, now time.Time) (*books.Finding, error) {
	finding := func(kind books.FindingKind, format string, args ...any) *books.Finding {
		return &books.Finding{Kind: kind, Detail: fmt.Sprintf(format, args...)}
	}
	match, err := b.Store.ChargeMatch(ctx, b.mode, c.Reference)
	unknown := errors.Is(err, checkout.ErrNotFound)
	if err == nil && !match.Deciding && !match.Booked && c.Cost.Valid() {
		err = b.Store.RecordChargeCost(ctx, b.mode, match.TransactionID, *c.Cost)
	}
	switch {
	case err != nil && !unknown:
		return nil, err
	case unknown && c.TransactionID == "": // another application charged it with the same account
		return nil, nil
	case match.Deciding || now.Sub(c.CreatedAt) < unmatchedAfter || c.Refunded == c.Amount:
		return nil, nil
	case unknown:
		// After the restore of an old backup, a paid session looks like this. A person decides.
		return finding(books.FindingChargeUnknown,
			"%s %s were charged for %s, which is not in the database. Nothing is refunded by itself.",
			c.Amount, c.Currency, c.TransactionID), nil
	case !match.Paid:
		refund := checkout.Refund{
			Ref: checkout.Owner{Mode: b.mode}.Ref(""), Reference: c.Reference, TransactionID: match.TransactionID,
			Origin: checkout.RefundUnmatched, Amount: c.Amount - c.Refunded,
		}
		return finding(books.FindingChargeUnmatched,
			"%s %s were charged for %s without a completed session; they are refunded.",
			c.Amount, c.Currency, c.TransactionID), b.Refunds.CreateRefund(ctx, refund)
	case c.Amount != match.Amount || c.Currency != match.Currency:
		return finding(books.FindingChargeDiffers, "%s is for %s %s, and the card network charged %s %s.",
			match.TransactionID, match.Amount, match.Currency, c.Amount, c.Currency), nil
	case c.Cost != nil && !c.Cost.Valid(): // one odd charge must not stop the comparison of the others
		return finding(books.FindingChargeDiffers,
			"The card network booked %s of %s %s as the cost of %s, which cannot be.",
			c.Cost.Cost, c.Cost.Gross, c.Cost.Currency, match.TransactionID), nil
	case c.Cost != nil && match.Cost != nil && !c.Cost.Is(*match.Cost):
		return finding(books.FindingCostDiffers,
			"%s of %s %s are booked as the cost of %s, and the card network has %s of %s %s.",
			match.Cost.Cost, match.Cost.Gross, match.Cost.Currency, match.TransactionID,
			c.Cost.Cost, c.Cost.Gross, c.Cost.Currency), nil
	}
	return nil, nil
}

// recordFinding opens the finding about a charge, or closes the findings of a charge in order.
func (b book) recordFinding(
	ctx context.Context, result *ReconcileChargesResult, c books.Charged, f *books.Finding,
) error {
	if f == nil {
		return b.Store.CloseFindings(ctx, b.mode, []string{c.Reference, c.TransactionID},
			books.FindingChargeUnmatched, books.FindingChargeUnknown, books.FindingChargeDiffers,
			books.FindingCostDiffers, books.FindingChargeMissing, books.FindingChargeLate)
	}
	f.Subject = c.Reference
	return b.open(ctx, result, *f)
}

func (b book) open(ctx context.Context, result *ReconcileChargesResult, f books.Finding) error {
	f.Mode = b.mode
	fresh, err := b.Store.OpenFinding(ctx, f)
	if fresh {
		result.Found++
		logFindings(ctx, []books.Finding{f})
	}
	return err
}

// SendRefunds does nothing: each refund has a run of its own. Builds before it had this activity schedule it in Books.
func (b *Books) SendRefunds(context.Context, contract.ModeInput) (int, error) { return 0, nil }

// logFindings logs findings that are new.
func logFindings(ctx context.Context, found []books.Finding) {
	for _, f := range found {
		logger(ctx).ErrorContext(ctx, "the books differ", "kind", f.Kind, "subject", f.Subject, "detail", f.Detail)
	}
}
