package app

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"example.com/checkout/workflows/checkout"
)

var errOwner = errors.New("that is not a bare e-mail address, such as somebody@shop.example")

func parseMerchantInvite(args []string) (accountAction, error) {
	var m checkout.Member
	flags := flag.NewFlagSet("merchant invite", flag.ContinueOnError)
	flags.StringVar(&m.Email, "email", "", "")
	flags.StringVar((*string)(&m.Role), "role", string(checkout.RoleOwner), "")
	id, err := parseID(flags, args, checkout.PrefixMerchant, "checkout merchant list")
	if err != nil {
		return nil, err
	}
	m.MerchantID = id
	if !checkout.ValidEmail(m.Email) {
		return nil, fmt.Errorf("--email: %w", errOwner)
	}
	if !m.Role.Valid() {
		return nil, fmt.Errorf("--role must be one of %v", checkout.Roles)
	}
	return func(ctx context.Context, c console) error { return c.invite(ctx, m) }, nil
}

// invite prints the link of an invitation for m, whose ID is made here.
func (c console) invite(ctx context.Context, m checkout.Member) error {
	m.ID = checkout.NewID(checkout.PrefixMember)
	token, err := c.Invite(ctx, m, operator)
	switch {
	case errors.Is(err, checkout.ErrNotFound):
		return errors.New("there is no such merchant; checkout merchant list shows them")
	case errors.Is(err, checkout.ErrEmailInUse):
		return errors.New("the merchant has somebody with that address already")
	case err != nil:
		return err
	}
	fmt.Fprintf(c.notes, "The link is for %s, good for 3 days, and not shown again.\n", m.Email)
	_, err = fmt.Fprintln(c.out, checkout.InvitationURL(c.dashboardURL, token))
	return err
}
