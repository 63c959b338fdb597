package mail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/merchant"
)

// allowance is how many mails of a kind are sent. One that is too many waits, and is given up after a day as any mail
// is; or it is dropped.
type allowance struct {
	pair     storage.Rate // of one merchant to one address
	person   storage.Rate // of all merchants to one address
	merchant storage.Rate // of one merchant to all addresses
	drops    bool
}

// testReceipt is the kind of a receipt of test mode.
const testReceipt merchant.MailKind = "test_receipt"

// testDispute is the kind of a mail about a dispute of test mode: tests must not use up what live ones may send.
const testDispute merchant.MailKind = "test_dispute"

// notices are mails to a merchant's own people about what others do in their name.
var notices = allowance{pair: aDay(20, 100), person: aDay(50, 200), merchant: aDay(500, 5_000)}

// allowances has every kind of mail.
var allowances = map[merchant.MailKind]allowance{
	// Anyone may ask for a code for anyone. One mail each half hour is as often as a code runs out: a stranger who asks
	// all day long floods no mailbox, and the person always has a valid code.
	merchant.MailPasswordReset: {pair: aDay(3, 48), person: aDay(12, 96), merchant: aDay(200, 5_000)},
	// The only mails to people who did not ask for one.
	merchant.MailInvitation: {pair: aDay(3, 3), person: aDay(10, 10), merchant: aDay(50, 50)},

	merchant.MailAccountChanged: notices,
	merchant.MailOwnersChanged:  notices,
	merchant.MailLiveKey:        notices,
	merchant.MailAddressAsked:   notices,
	merchant.MailAddressStopped: notices,
	merchant.MailAddressChanged: notices,

	merchant.MailEndpointFailing: {pair: aDay(10, 20), person: aDay(50, 100), merchant: aDay(200, 1_000), drops: true},
	merchant.MailEndpointHeld:    {pair: aDay(10, 20), person: aDay(50, 100), merchant: aDay(200, 1_000), drops: true},

	merchant.MailDisputeOpened: notices,
	testDispute:                {pair: aDay(10, 20), person: aDay(20, 50), merchant: aDay(50, 100), drops: true},

	merchant.MailReceipt: {pair: aDay(20, 50), person: aDay(50, 100), merchant: aDay(10_000, 1_000_000)},
	testReceipt:          {pair: aDay(10, 20), person: aDay(20, 50), merchant: aDay(50, 100), drops: true},
}

// aDay lets n mails through a day, and burst of them at once.
func aDay(burst int, n float64) storage.Rate {
	return storage.Rate{PerSecond: n / (24 * time.Hour).Seconds(), Burst: burst}
}

// shortestWait keeps mails that wait from being counted again and again.
const shortestWait = time.Minute

var heldBack, _ = otel.Meter("example.com/checkout/activities/mail").Int64Counter("checkout.mail.limited",
	metric.WithUnit("{mail}"), metric.WithDescription("Mails that were too many: each time that one waits or is dropped."))

// tooMany counts a mail and reports whether it is too many. Then it waits or is dropped, and that is logged.
func (o *Outbox) tooMany(ctx context.Context, m merchant.Mail, kind merchant.MailKind) (bool, error) {
	if m.Attempts > 1 { // counted before the first one
		return false, nil
	}
	a, person := allowances[kind], ownerOf(m.To)
	buckets := []storage.Bucket{ // the narrowest first: a flood must not use up what others may send
		{Owner: ownerOf(m.To, m.MerchantID), Kind: "mail_pair_" + string(kind), Rate: a.pair},
		{Owner: person, Kind: "mail_person_" + string(kind), Rate: a.person},
		{Owner: m.MerchantID, Kind: "mail_merchant_" + string(kind), Rate: a.merchant},
	}
	for i, b := range buckets {
		got, err := o.Requests.Allow(ctx, b)
		if err != nil {
			return false, err
		}
		if got.OK {
			continue
		}
		for _, taken := range buckets[:i] {
			if err := o.Requests.GiveBack(ctx, taken); err != nil {
				return false, err
			}
		}
		heldBack.Add(ctx, 1, metric.WithAttributes(attribute.String("checkout.mail.kind", string(kind))))
		log := slog.With("mail", m.ID, "kind", kind, "limit", b.Kind, "merchant_id", m.MerchantID)
		if a.drops {
			log.WarnContext(ctx, "too many mails: one is dropped")
			return true, o.People.MailFailed(ctx, m.ID, 0)
		}
		wait := max(got.Wait, shortestWait)
		log.WarnContext(ctx, "too many mails: one waits", "again_in", wait)
		return true, o.People.MailHeldBack(ctx, m.ID, wait)
	}
	return false, nil
}

// ownerOf returns the name of a bucket, without the address. ann+shop@… is the mailbox of ann@….
func ownerOf(to string, more ...string) string {
	local, host, _ := strings.Cut(strings.ToLower(to), "@")
	local, _, _ = strings.Cut(local, "+")
	sum := sha256.Sum256([]byte(local + "@" + host + " " + strings.Join(more, " ")))
	return hex.EncodeToString(sum[:16])
}
