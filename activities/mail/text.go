package mail

import (
	"cmp"
	"strings"

	"example.com/checkout/workflows/merchant"
)

// Message is a mail in plain text.
type Message struct {
	To      string
	Subject string
	Text    string
}

// words are the subject and the news of each kind of mail, its advice, and the merchant's page in the dashboard that it
// is about, unless the mail names one.
var words = map[merchant.MailKind]struct{ subject, news, advice, page string }{
	merchant.MailAccountChanged: {
		"Your account was changed", "The way you sign in was changed.",
		"If this was not you, ask another owner of your merchant to remove your account now. If there is no other owner, " +
			"contact us immediately: we remove second factors that are not yours.",
		"live/account",
	},
	merchant.MailOwnersChanged: {
		"The owners of your merchant changed", "Owners can change payout addresses and people.",
		"If you did not expect this, open People in the dashboard and remove anyone who should not be there. " +
			"If you can no longer sign in, contact us immediately.",
		"live/members",
	},
	merchant.MailLiveKey: {
		"A live API key was created", "A live key charges real cards.",
		"If you did not expect this, open the live API keys in the dashboard and revoke it.",
		"live/keys",
	},
	merchant.MailAddressAsked: {
		"A payout address will change", "Someone requested a new address for your live payouts.",
		"If you did not expect this, open the live settings in the dashboard and stop the change. Any owner can.",
		"live/settings",
	},
	merchant.MailAddressStopped: {
		"The change of a payout address was stopped", "A scheduled change of a live payout address was canceled.",
		"If you did not expect this, ask the other owners.",
		"live/settings",
	},
	merchant.MailAddressChanged: {
		"A payout address was changed", "Live payouts are now sent to another address.",
		"If you did not expect this, contact us immediately and change the address in the live settings.",
		"live/settings",
	},
	merchant.MailEndpointFailing: {
		"A webhook is failing", "Your server does not accept our events. We keep retrying.",
		"Open Webhooks in the dashboard: each delivery shows your server's answer.",
		"",
	},
	merchant.MailEndpointHeld: {
		"A webhook was put on hold", "We stopped sending, because your server has not accepted events for a long time.",
		"Nothing is lost: events wait. Fix the server, then open the webhook in the dashboard and resume it.",
		"",
	},
	merchant.MailDisputeOpened: {
		"A customer disputes a payment", "A customer denies a payment at the bank.",
		"If the payment is right, send evidence in time: the delivery, the customer's messages, the terms. " +
			"Evidence is sent once. Without it you lose the payment.",
		"",
	},
}

// text writes a mail. code is the code of a password reset or an invitation. What a merchant or a person wrote is text
// without links.
func text(m merchant.Mail, dashboard, code string) Message {
	lines := strings.Split(m.Detail, "\n")
	for i, line := range lines {
		lines[i] = merchant.MailText(line)
	}
	m.Detail = strings.Join(lines, "\n")
	message := Message{To: m.To}
	var parts []string
	switch m.Kind {
	case merchant.MailInvitation:
		message.Subject = "You are invited to a merchant's dashboard"
		parts = []string{
			"Someone invites " + m.To + " to the dashboard of a merchant, where payments are looked at and managed.",
			m.Detail,
			"Open this link to choose a password. It is single-use and valid for 3 days:\n" +
				merchant.InvitationURL(dashboard, code),
			"If you do not know the merchant, do nothing: you do not get an account.",
		}
	case merchant.MailPasswordReset:
		message.Subject = "Choose a new password"
		parts = []string{
			"Someone, probably you, requested a new password for " + m.To + ".",
			"Open this link to choose one. It is single-use and valid for 30 minutes:\n" +
				dashboard + "/password/reset#" + code,
			"Or open " + dashboard + "/password/reset and enter this code:\n" + code,
			"If this was not you, do nothing: your password does not change.",
		}
	default:
		w := words[m.Kind]
		message.Subject = w.subject
		page := dashboard + "/m/" + m.MerchantID + "/" + cmp.Or(m.Page, w.page)
		parts = []string{w.news, m.Detail, w.advice, "In the dashboard: " + page}
	}
	at := m.CreatedAt.UTC().Format("2 Jan 2006 15:04:05 UTC")
	parts = append(parts, "Merchant: "+merchant.MailText(m.Merchant)+" ("+m.MerchantID+")\nAt: "+at)
	message.Text = strings.Join(parts, "\n\n") + "\n"
	return message
}
