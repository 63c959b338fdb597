package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// listsMerchants is the command that prints merchants' ids.
const listsMerchants = "checkout merchant list"

func (c *call) merchantCommand() *cobra.Command {
	return parentOf(&cobra.Command{
		Use:   "merchant",
		Short: "Create, list and change merchants and invite their members",
		Long: `Creates, lists and changes merchants and invites their members. It needs DATABASE_URL, CHECKOUT_DASHBOARD_URL
for links, and no other setting.`,
	}, c.merchantCreateCommand(), c.merchantInviteCommand(), c.merchantResetFactorCommand(),
		c.merchantStopAddressCommand(),
		c.merchantPlanCommand(), c.merchantListCommand(), c.merchantShowCommand())
}

func (c *call) merchantCreateCommand() *cobra.Command {
	var name, plan, mode, owner string
	var withKey bool
	var addresses []merchant.PayoutAddress
	var n newMerchant
	command := &cobra.Command{
		Use:   "create --name TEXT",
		Short: "Create a merchant and print its id",
		Long: `Creates a merchant and prints its id. --owner also prints an invitation link for the first owner;
--with-key also prints a first test key, on the last line. Link and key are not shown again.

Payout networks by currency: ` + payoutNetworks() + `.`,
		Example: `  checkout merchant create --name Shop --owner ann@shop.example --with-key
  checkout merchant create --name Shop --payout USDC=ethereum:0x… --payout BTC=bitcoin:bc1q… --mode both`,
		Args: words(),
		PreRunE: func(*cobra.Command, []string) (err error) {
			n, err = readMerchant(name, plan, mode, addresses)
			if err == nil && owner != "" {
				err = checkEmail("owner", owner)
			}
			n.owner, n.withKey = owner, withKey
			return err
		},
		RunE: c.operator(func(ctx context.Context, c console, _ []string) error { return c.createMerchant(ctx, n) }),
	}
	flags := command.Flags()
	flags.StringVar(&name, "name", "", "`text` that customers see")
	flags.StringVar(&plan, "plan", standardPlan, "the merchant's `plan`")
	flags.Func("payout", "payout address, `CURRENCY=network:address`; once for each currency",
		func(text string) (err error) {
			addresses, err = addPayout(addresses, text)
			return err
		})
	flags.StringVar(&mode, "mode", string(checkout.ModeTest), "`mode` of the payout addresses: test, live or both")
	flags.StringVar(&owner, "owner", "", "e-mail `address` of the first owner")
	flags.BoolVar(&withKey, "with-key", false, "also create a first test key")
	completes(command, "mode", string(checkout.ModeTest), string(checkout.ModeLive), bothModes)
	return command
}

func payoutNetworks() string {
	return strings.Join(each(money.PayoutCurrencies, func(c money.PayoutCurrency) string {
		return string(c) + "=" + c.Network()
	}), ", ")
}

const (
	standardPlan  = "standard"
	bothModes     = "both"
	firstKeyLabel = "first key"
)

// newMerchant holds the arguments of merchant create.
type newMerchant struct {
	merchant.Merchant
	modes     []checkout.Mode // modes of the addresses
	addresses []merchant.PayoutAddress
	owner     string // e-mail address; "" for none
	withKey   bool
}

// readMerchant reads the flags of merchant create.
func readMerchant(name, plan, mode string, addresses []merchant.PayoutAddress) (newMerchant, error) {
	n := newMerchant{addresses: addresses, Merchant: merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: name, Plan: plan,
		FeeBasisPoints: merchant.DefaultFeeBasisPoints, PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}}
	if err := checkWords("name", name); err != nil {
		return n, err
	}
	if err := checkWords("plan", plan); err != nil {
		return n, err
	}

	switch mode {
	case bothModes:
		n.modes = []checkout.Mode{checkout.ModeTest, checkout.ModeLive}
	case string(checkout.ModeTest), string(checkout.ModeLive):
		n.modes = []checkout.Mode{checkout.Mode(mode)}
	default:
		return n, fmt.Errorf("--mode must be test, live or both, not %q", mode)
	}
	return n, n.checkAddresses(address.Rules{})
}

// checkAddresses checks the payout addresses as the dashboard does. Before the settings are read, the
// rules are not known and so the zero ones.
func (n newMerchant) checkAddresses(rules address.Rules) error {
	for _, mode := range n.modes {
		for _, to := range n.addresses {
			if err := rules.Check(mode, to.Network, to.Address); err != nil {
				return fmt.Errorf("--payout %s: the address %w", to.Currency, err)
			}
		}
	}
	return nil
}

// addPayout adds the address from a flag --payout.
func addPayout(addresses []merchant.PayoutAddress, text string) ([]merchant.PayoutAddress, error) {
	to, err := parsePayout(text)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(addresses, func(a merchant.PayoutAddress) bool { return a.Currency == to.Currency }) {
		return nil, fmt.Errorf("%s appears twice", to.Currency)
	}
	return append(addresses, to), nil
}

// parsePayout reads CURRENCY=network:address.
func parsePayout(text string) (merchant.PayoutAddress, error) {
	currency, rest, _ := strings.Cut(text, "=")
	network, address, ok := strings.Cut(rest, ":")
	to := merchant.PayoutAddress{Currency: money.PayoutCurrency(currency), Network: network, Address: address}
	switch {
	case !ok || address == "":
		return to, errors.New("must be CURRENCY=network:address, such as USDC=ethereum:0x…")
	case !to.Currency.Valid():
		return to, fmt.Errorf("%q is not a payout currency; use one of %s", currency, payoutNetworks())
	case network != to.Currency.Network():
		return to, fmt.Errorf("%s is paid out on %s, not on %q", currency, to.Currency.Network(), network)
	}
	return to, nil
}

func (c console) createMerchant(ctx context.Context, n newMerchant) error {
	if err := n.checkAddresses(c.addresses); err != nil {
		return err
	}
	for _, mode := range n.modes {
		if err := c.Merchants.CreateMerchant(ctx, n.Merchant, mode, n.addresses); err != nil {
			return fmt.Errorf("%s is incomplete, create another: %w", n.ID, err)
		}
	}
	if _, err := fmt.Fprintln(c.out, n.ID); err != nil {
		return err
	}
	if len(n.addresses) == 0 {
		fmt.Fprintln(c.notes, "The merchant has no payout address: its payouts will fail.")
	}
	if n.owner != "" {
		if err := c.invite(ctx, merchant.Member{MerchantID: n.ID, Email: n.owner, Role: merchant.RoleOwner}); err != nil {
			return fmt.Errorf("%s has no owner yet; checkout merchant invite makes one: %w", n.ID, err)
		}
	}
	if !n.withKey {
		return nil
	}
	return c.createKey(ctx, merchant.APIKey{
		Ref:   checkout.Owner{MerchantID: n.ID, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixAPIKey)),
		Label: firstKeyLabel, Scopes: merchant.Scopes{merchant.ScopeFull},
	})
}

// listedMerchant is a merchant in the output of --json.
type listedMerchant struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Plan      string            `json:"plan"`
	Fee       int64             `json:"fee_basis_points"`
	FeeFixed  money.Amount      `json:"fee_fixed"`
	Settings  merchant.Settings `json:"settings"`
	CreatedAt string            `json:"created_at"`
}

func listMerchant(m merchant.Merchant) listedMerchant {
	return listedMerchant{m.ID, m.Name, m.Plan, m.FeeBasisPoints, m.FeeFixed,
		merchant.Settings{
			PaymentAttempts: m.PaymentAttempts,
			OrderIDGuard:    m.OrderIDGuard,
		}, checkout.FormatTime(m.CreatedAt)}
}

// listedChange is a scheduled change of a payout address in the output of --json.
type listedChange struct {
	merchant.PayoutAddress

	At string `json:"at"`
	By string `json:"by"`
}

func (c *call) merchantListCommand() *cobra.Command {
	return c.addJSON(&cobra.Command{
		Use:   "list",
		Short: "List every merchant, newest first",
		Args:  words(),
		RunE:  c.operator(func(ctx context.Context, c console, _ []string) error { return c.listMerchants(ctx) }),
	})
}

func (c console) listMerchants(ctx context.Context) error {
	merchants, err := c.Merchants.Merchants(ctx)
	if err != nil {
		return err
	}
	listed := make([]listedMerchant, 0, len(merchants))
	rows := [][]string{{"ID", "NAME", "PLAN", "CREATED"}}
	for _, m := range merchants {
		listed = append(listed, listMerchant(m))
		rows = append(rows, []string{m.ID, m.Name, m.Plan, showTime(&m.CreatedAt)})
	}
	return c.printList(listed, rows...)
}

func (c *call) merchantShowCommand() *cobra.Command {
	return c.addJSON(&cobra.Command{
		Use:   "show mer_…",
		Short: "Show one merchant with its payout addresses",
		Args:  idAnd(checkout.PrefixMerchant, listsMerchants),
		RunE:  c.operator(func(ctx context.Context, c console, args []string) error { return c.showMerchant(ctx, args[0]) }),
	})
}

func (c console) showMerchant(ctx context.Context, id string) error {
	m, err := c.findMerchant(ctx, id)
	if err != nil {
		return err
	}

	rows := [][]string{
		{"id", m.ID}, {"name", m.Name}, {"plan", m.Plan},
		{"fee", m.Fee().String()},
		{"failed payments per session", fmt.Sprint(m.PaymentAttempts)},
		{"refuses a second session for an order", fmt.Sprint(m.OrderIDGuard)},
		{"created", showTime(&m.CreatedAt)},
	}

	addresses := map[checkout.Mode][]merchant.PayoutAddress{}
	scheduled := map[checkout.Mode][]listedChange{}
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		got, err := c.Merchants.PayoutAddresses(ctx, m.Owner(mode))
		if err != nil {
			return err
		}
		addresses[mode] = append([]merchant.PayoutAddress{}, got...) // an empty list in JSON, not null
		for _, to := range got {
			rows = append(rows, []string{fmt.Sprintf("payout %s, %s mode", to.Currency, mode), to.Network + ":" + to.Address})
		}
		changes, err := c.Merchants.AddressChanges(ctx, m.Owner(mode))
		if err != nil {
			return err
		}
		for _, to := range changes {
			rows = append(rows, []string{
				fmt.Sprintf("from %s on", showTime(&to.At)),
				fmt.Sprintf("payout %s, %s mode: %s, by %s", to.Currency, mode, cmp.Or(to.Address, "none"), to.By),
			})
			scheduled[mode] = append(scheduled[mode], listedChange{to.PayoutAddress, checkout.FormatTime(to.At), to.By})
		}
	}
	return c.printList(struct {
		listedMerchant
		Addresses map[checkout.Mode][]merchant.PayoutAddress `json:"payout_addresses"`
		Scheduled map[checkout.Mode][]listedChange           `json:"scheduled_payout_addresses,omitempty"`
	}{listMerchant(m), addresses, scheduled}, rows...)
}
