package dashboard

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/limit"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// payloads are texts that do harm on a page that does not escape them.
var payloads = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><svg onload=alert(1)>`,
	`<iframe src=javascript:alert(1)>`, `"><a href="javascript:alert(1)">x</a>`, `{{.}}<b>`, `<style>*{display:none}</style>`,
	`--><script>alert(1)</script>`, `<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`, `\"><script>x</script>`, `<div hx-get="/signout" hx-trigger="load">`,
}

const harm = `(?i)<script>|<img|<svg|<iframe|<style|<a hx-get|<[^>]*"[^">]*"\s+onfocus=|href="javascript:|<!--`

// TestPages_WhatOthersWroteIsText plants harm in everything that people, customers and their banks write, with a letter
// for each field.
func TestPages_WhatOthersWroteIsText(t *testing.T) {
	s, owner := newSenderAs(t, merchant.RoleOwner, func(c *Config) {
		c.Limits = limit.Rates{Requests: unlimited, Forms: unlimited}
	})
	for _, text := range payloads {
		form := owner.form("/test/settings", "/test/settings")
		s.exec(`UPDATE merchant SET name = $2 WHERE id = $1`, s.merchant, "m"+text)
		session := s.harmfulSession(text)
		s.exec(`UPDATE payout_address SET address = $2 WHERE merchant_id = $1`, s.merchant, "a"+text)
		note := must.Get(json.Marshal(text))(t)
		hook := newSender(s.desk, s.merchant, checkout.ModeTest,
			"https://shop.example/?q="+strings.ReplaceAll(text, " ", ""), "D"+text, `{"note":`+string(note)+`}`)
		hook.attempt("run", 1, 500, "b"+text)
		query, at := url.QueryEscape("q"+text), "/test/webhooks/"+hook.endpoint.ID
		created := owner.follow(owner.post("/test/keys", "label", "k"+text, "access", "full"))

		for _, p := range []struct {
			letters string
			received
		}{
			{"oKerdNxflcwuR", owner.open("/test/sessions/" + session.ID)},
			{"R", owner.open("/test/disputes")},
			{"", owner.get("/test/refunds?status=" + query)},
			{"", owner.get("/test/balance?type=" + query + "&currency=" + query)},
			{"z", owner.post("/test/sessions/"+session.ID+"/refund", "amount", "z"+text, "reason", text)},
			{"oe", owner.open("/test/sessions")},
			{"q", owner.open("/test/sessions?search=" + query)},
			{"", owner.get("/test/sessions?from=" + query + "&status=" + query)},
			{"D", owner.open("/test/webhooks")},
			{"mD", owner.open(at)},
			{"D", owner.open(at + "/edit")},
			{"", owner.open(at + "/delete")},
			{"", owner.open("/test/replays/" + hook.replay.ID)},
			{"", owner.get(at + "/replay?since=" + query + "&rate=" + query)},
			{"", owner.get("/test/deliveries?status=" + query + "&webhook=" + query + "&session=" + query + "&from=" + query)},
			{"", owner.open("/test/deliveries")},
			{"b", owner.open("/test/deliveries/" + hook.ref.ID)},
			{"t", owner.post("/test/webhooks", "url", text, "description", "t"+text)},
			{"k", created.is(200)},
			{"k", owner.open("/test/keys")},
			{"k", owner.post("/test/keys", "label", "k"+text, "access", "none")},
			{"n", form.send("name", "n"+text, "payment_attempts", "x").is(422)},
			{"", owner.post("/test/settings/payout", "address_BTC", text)},
			{"ma", owner.open("/test/settings")},
			{"m", owner.open("/test/members")},
			{"p", owner.post("/test/members", "email", "p"+text+"@x.example", "role", "viewer")},
		} {
			require.NotContains(t, p.body, text)
			require.NotRegexp(t, harm, p.body, text)
			for _, letter := range p.letters {
				p.shows(string(letter) + text)
			}
		}
	}
}

// harmfulSession is a session with a failed payment and a failed payout.
func (d *desk) harmfulSession(text string) checkout.Session {
	metadata := must.Get(checkout.EncodeJSON(map[string]string{"order_id": "o" + text, "K" + text: "v"}))(d.t)
	s := d.newSession(d.merchant, checkout.ModeTest, func(s *checkout.Session) {
		s.Metadata, s.CustomerEmail, s.RedirectURL = metadata, new("e"+text), new("r"+text)
	})
	d.pay(s, checkout.FailureCardDeclined)
	d.pay(s, "")
	d.dispute(s, books.RiskInquiry, func(r *books.ChargeRisk) { r.Reason = "R" + text })
	d.exec(`UPDATE payout SET destination = $1, network = $2, tx_hash = $3, failure = $4, status = 'failed'`,
		"d"+text, "n"+text, "x"+text, "f"+text)
	method := fmt.Sprintf(`{"brand": %q, "last4": %q, "country": %q}`, "B"+text, "l"+text, "c"+text)
	d.exec(`UPDATE transaction SET payment_method = $1, failure = $2 WHERE status = 'failed'`, method, "w"+text)
	d.exec(`UPDATE checkout_session SET webhook_url = $1 WHERE id = $2`, "u"+text, s.ID)
	return s
}
