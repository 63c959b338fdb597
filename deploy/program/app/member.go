package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

var inviteCommand = command{
	use:   "invite mer_… --email ADDRESS",
	short: "Print an invitation link to the dashboard",
	long: `Prints an invitation link: the person chooses a password and signs in to the merchant's dashboard. The
link is valid for 3 days and is not shown again. It points to CHECKOUT_DASHBOARD_URL. It replaces an open
invitation. Verify who gets it: accepting it proves that the address is theirs.`,
	example: "  checkout merchant invite mer_06gzx1s5q8v2m9kd3yet7b4wnc --email ann@shop.example --role developer",
	args:    idAnd(checkout.PrefixMerchant, listsMerchants),
	flags: func(f *pflag.FlagSet) {
		f.String("email", "", "the person's e-mail `address`")
		f.String("role", string(merchant.RoleOwner), "`role`: owner, developer or viewer")
	},
	values: map[string][]string{"role": names(merchant.Roles)},
	check: func(c *call) error {
		if err := c.checkEmail("email"); err != nil {
			return err
		}
		if !merchant.Role(c.text("role")).Valid() {
			return fmt.Errorf("--role must be one of %v", merchant.Roles)
		}
		return nil
	},
	run: withKeyless(func(c keylessCall, ctx context.Context) (result, error) {
		role := merchant.Role(c.text("role"))
		return c.invite(ctx, merchant.Member{MerchantID: c.args[0], Email: c.text("email"), Role: role})
	}),
}

// invite invites m and shows the link. It sets the ID of m.
func (c keylessCall) invite(ctx context.Context, m merchant.Member) (result, error) {
	m.ID = checkout.NewID(checkout.PrefixMember)
	token, err := c.People.Invite(ctx, m, action.Operator.Actor)
	err = explain(err, checkout.ErrNotFound, "there is no such merchant; %s shows them", listsMerchants)
	err = explain(err, merchant.ErrEmailInUse, "the merchant already has a member with that address")
	return resultOf(err, note(fmt.Sprintf("The link is for %s, valid for 3 days, and not shown again.", m.Email)),
		merchant.InvitationURL(c.settings.DashboardURL, token))
}

var resetFactorCommand = command{
	use:   "reset-factor mer_… --email ADDRESS",
	short: "Remove a member's lost second factor",
	long: `Removes the authenticator app, passkeys and recovery codes of a dashboard member, and signs the person out of
every browser. The password stays. Verify the person's identity first. Use this for a sole owner who has lost
everything: otherwise an owner can remove and re-invite the member. The audit log gets an entry, and the person
gets an e-mail.`,
	example: "  checkout merchant reset-factor mer_06gzx1s5q8v2m9kd3yet7b4wnc --email ann@shop.example",
	args:    idAnd(checkout.PrefixMerchant, listsMerchants),
	flags:   func(f *pflag.FlagSet) { f.String("email", "", "the person's e-mail `address`") },
	check:   func(c *call) error { return c.checkEmail("email") },
	run:     withKeyless(keylessCall.resetFactor),
}

func (c keylessCall) resetFactor(ctx context.Context) (result, error) {
	merchantID := c.args[0]
	members, err := c.People.MembersByEmail(ctx, c.text("email"))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(members, func(m people.MemberWithPassword) bool { return m.MerchantID == merchantID })
	if at < 0 {
		return nil, errors.New("the merchant has no member with that address who can sign in")
	}
	m := members[at]
	err = c.People.ResetFactors(ctx, merchantID, m.ID, action.Operator.Entry(
		checkout.Owner{MerchantID: merchantID}.Ref(m.ID), "member.second_factor_reset",
		m.Email+": every second factor was removed"))
	err = explain(err, checkout.ErrNotFound, "that person has no second factor")
	return resultLine(err, "%s no longer has a second factor and is signed out of every browser.", m.Email)
}
