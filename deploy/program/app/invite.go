package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func (c *call) merchantInviteCommand() *cobra.Command {
	var email, role string
	command := &cobra.Command{
		Use:   "invite mer_… --email ADDRESS",
		Short: "Print an invitation link to the dashboard",
		Long: `Prints an invitation link: the person chooses a password and signs in to the merchant's dashboard. The
link is valid for 3 days and is not shown again. It points to CHECKOUT_DASHBOARD_URL. It replaces an open
invitation. Verify who gets it: accepting it proves that the address is theirs.`,
		Example: "  checkout merchant invite mer_06gzx1s5q8v2m9kd3yet7b4wnc --email ann@shop.example --role developer",
		Args:    idAnd(checkout.PrefixMerchant, listsMerchants),
		PreRunE: func(*cobra.Command, []string) error {
			if err := checkEmail("email", email); err != nil {
				return err
			}
			if !merchant.Role(role).Valid() {
				return fmt.Errorf("--role must be one of %v", merchant.Roles)
			}
			return nil
		},
		RunE: c.operator(func(ctx context.Context, c console, args []string) error {
			return c.invite(ctx, merchant.Member{MerchantID: args[0], Email: email, Role: merchant.Role(role)})
		}),
	}
	command.Flags().StringVar(&email, "email", "", "the person's e-mail `address`")
	command.Flags().StringVar(&role, "role", string(merchant.RoleOwner), "`role`: owner, developer or viewer")
	completes(command, "role", names(merchant.Roles)...)
	return command
}

// checkEmail returns an error if text is not an e-mail address.
func checkEmail(flag, text string) error {
	if !checkout.ValidEmail(text) {
		return fmt.Errorf("--%s is not a bare e-mail address, such as somebody@shop.example", flag)
	}
	return nil
}

// invite invites m and prints the link. It sets the ID of m.
func (c console) invite(ctx context.Context, m merchant.Member) error {
	m.ID = checkout.NewID(checkout.PrefixMember)
	token, err := c.People.Invite(ctx, m, action.Operator.Actor)
	err = explained(err, checkout.ErrNotFound, "there is no such merchant; %s shows them", listsMerchants)
	err = explained(err, merchant.ErrEmailInUse, "the merchant already has a member with that address")
	if err != nil {
		return err
	}
	fmt.Fprintf(c.notes, "The link is for %s, valid for 3 days, and not shown again.\n", m.Email)
	_, err = fmt.Fprintln(c.out, merchant.InvitationURL(c.dashboardURL, token))
	return err
}
