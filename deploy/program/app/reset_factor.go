package app

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
)

func (c *call) merchantResetFactorCommand() *cobra.Command {
	var email string
	command := &cobra.Command{
		Use:   "reset-factor mer_… --email ADDRESS",
		Short: "Remove a member's lost second factor",
		Long: `Removes the authenticator app, passkeys and recovery codes of a dashboard member, and signs the person out of
every browser. The password stays. Verify the person's identity first. Use this for a sole owner who has lost
everything: otherwise an owner can remove and re-invite the member. The audit log gets an entry, and the person
gets an e-mail.`,
		Example: "  checkout merchant reset-factor mer_06gzx1s5q8v2m9kd3yet7b4wnc --email ann@shop.example",
		Args:    idAnd(checkout.PrefixMerchant, listsMerchants),
		PreRunE: func(*cobra.Command, []string) error { return checkEmail("email", email) },
		RunE: c.operator(func(ctx context.Context, c console, args []string) error {
			return c.resetFactor(ctx, args[0], email)
		}),
	}
	command.Flags().StringVar(&email, "email", "", "the person's e-mail `address`")
	return command
}

func (c console) resetFactor(ctx context.Context, merchantID, email string) error {
	members, err := c.People.MembersByEmail(ctx, email)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(members, func(m people.MemberWithPassword) bool { return m.MerchantID == merchantID })
	if at < 0 {
		return errors.New("the merchant has no member with that address who can sign in")
	}
	m := members[at]
	err = c.People.ResetFactors(ctx, merchantID, m.ID, action.Operator.Entry(
		checkout.Owner{MerchantID: merchantID}.Ref(m.ID), "member.second_factor_reset",
		m.Email+": every second factor was removed"))
	err = explained(err, checkout.ErrNotFound, "that person has no second factor")
	return c.said(err, "%s no longer has a second factor and is signed out of every browser.\n", m.Email)
}
