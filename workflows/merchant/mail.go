package merchant

import "time"

// MailKind says what a mail is about.
type MailKind string

// The kinds of mails.
const (
	MailPasswordReset  MailKind = "password_reset"  // with a code, to the member
	MailInvitation     MailKind = "invitation"      // with a link for a first password, to the invited person
	MailAccountChanged MailKind = "account_changed" // of the password or the second factor, to the member
	MailOwnersChanged  MailKind = "owners_changed"  // to every owner
	MailLiveKey        MailKind = "live_key"        // to every owner
	MailAddressAsked   MailKind = "address_asked"   // a live payout address will change, to every owner
	MailAddressStopped MailKind = "address_stopped" // to every owner
	MailAddressChanged MailKind = "address_changed" // live payout addresses have changed, to every owner
	MailReceipt        MailKind = "receipt"         // of a completed session, to its customer; Detail is the language

	MailEndpointFailing MailKind = "endpoint_failing" // a webhook registration fails, to owners and developers
	MailEndpointHeld    MailKind = "endpoint_held"    // it was put on hold, to owners and developers
	MailDisputeOpened   MailKind = "dispute_opened"   // a customer disputes a payment, to owners and developers
)

// Mail is a mail that is due. The sender writes its text.
type Mail struct {
	ID         int64
	Kind       MailKind
	Detail     string // in words, without secrets
	CreatedAt  time.Time
	Attempts   int // with the one that is due
	MemberID   string
	MerchantID string
	Merchant   string // name
	To         string // e-mail address
	SessionID  string // of a receipt, which has no member, merchant and address: the sender reads the session
	Page       string // of the merchant in the dashboard, such as "test/webhooks/we_…"; "" for that of the kind
}

// PasswordResetLifetime is how long the code in a mail is good for.
const PasswordResetLifetime = 30 * time.Minute
