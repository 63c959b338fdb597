package mail

import (
	"strings"

	"example.com/checkout/workflows/checkout"
)

// Message is a mail in plain text.
type Message struct {
	To      string
	Subject string
	Text    string
}

// words are what each kind of mail says first, and what its reader may do.
var words = map[checkout.MailKind]struct{ subject, news, advice string }{
	checkout.MailAccountChanged: {
		"Your account was changed", "Somebody changed how you sign in.",
		"If it was not you, ask an owner of your merchant to remove your account now.",
	},
	checkout.MailOwnersChanged: {
		"The owners of your merchant change", "Owners may change payout addresses and people.",
		"If you do not know about this, open People in the dashboard, and remove who should not be there.",
	},
	checkout.MailLiveKey: {
		"A live API key was made", "A live key charges real cards.",
		"If you do not know about this, open the live API keys in the dashboard, and revoke it.",
	},
	checkout.MailAddressAsked: {
		"A payout address will change", "Somebody asked to change where your live payouts are sent.",
		"If you do not know about this, open the live settings in the dashboard, and stop the change. Any owner may.",
	},
	checkout.MailAddressStopped: {
		"The change of a payout address was stopped", "An announced change of a live payout address will not happen.",
		"If you do not know about this, ask the other owners.",
	},
	checkout.MailAddressChanged: {
		"A payout address was changed", "Live payouts are sent to another address from now on.",
		"If you do not know about this, tell us at once, and change the address in the live settings.",
	},
	checkout.MailEndpointFailing: {
		"A webhook fails", "Your server does not take the events that we send to it. We go on trying.",
		"Open Webhooks in the dashboard: each delivery shows what your server answered.",
	},
	checkout.MailEndpointHeld: {
		"A webhook was put on hold", "Your server has taken no event for so long that we stopped sending.",
		"Nothing is lost: events wait. Repair the server, then open the webhook in the dashboard and resume it.",
	},
}

// text writes a mail. code is the code of a password reset.
func text(m checkout.Mail, dashboard, code string) Message {
	said := Message{To: m.To}
	var parts []string
	if m.Kind == checkout.MailPasswordReset {
		said.Subject = "Choose a new password"
		parts = []string{
			"Somebody, probably you, forgot the password of " + m.To + ".",
			"Open this link and choose another one. It is good for 30 minutes and for one use:\n" +
				dashboard + "/password/reset#" + code,
			"Or open " + dashboard + "/password/reset and enter this code:\n" + code,
			"If it was not you, do nothing: your password stays as it is.",
		}
	} else {
		w := words[m.Kind]
		said.Subject = w.subject
		parts = []string{w.news, m.Detail, w.advice, "The dashboard: " + dashboard}
	}
	at := m.CreatedAt.UTC().Format("2 Jan 2006 15:04:05 UTC")
	parts = append(parts, "Merchant: "+m.Merchant+" ("+m.MerchantID+")\nAt: "+at)
	said.Text = strings.Join(parts, "\n\n") + "\n"
	return said
}
