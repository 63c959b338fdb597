package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// listsMerchants is the command that prints merchants' ids.
const listsMerchants = "checkout merchant list"

var merchantCommand = command{
	use:   "merchant",
	short: "Create, list and change merchants and invite their members",
	long: `Creates, lists and changes merchants and invites their members. It needs DATABASE_URL, CHECKOUT_DASHBOARD_URL
for links, and no other setting.`,
	children: []command{
		{
			use:   "create --name TEXT",
			short: "Create a merchant and print its id",
			long: `Creates a merchant and prints its id. --owner also prints an invitation link for the first owner;
--with-key also prints a first test key, on the last line. Link and key are not shown again.

Payout networks by currency: ` + payoutNetworks() + `.`,
			example: `  checkout merchant create --name Shop --owner ann@shop.example --with-key
  checkout merchant create --name Shop --payout USDC=ethereum:0x… --payout BTC=bitcoin:bc1q… --mode both`,
			args: words(),
			flags: func(f *pflag.FlagSet) {
				f.String("name", "", "`text` that customers see")
				f.String("plan", standardPlan, "the merchant's `plan`")
				f.StringArray("payout", nil, "payout address, `CURRENCY=network:address`; once for each currency")
				f.String("mode", string(checkout.ModeTest), "`mode` of the payout addresses: test, live or both")
				f.String("owner", "", "e-mail `address` of the first owner")
				f.Bool("with-key", false, "also create a first test key")
			},
			values: map[string][]string{"mode": append(slices.Clone(modes), bothModes)},
			check:  reading((*call).newMerchant),
			run:    withKeyless(keylessCall.createMerchant),
		},
		inviteCommand, resetFactorCommand,
		{
			use:   "stop-address mer_… CURRENCY",
			short: "Stop a change of a live payout address that is not in effect yet",
			long: `Stops a scheduled change of a live payout address: payouts continue to the present address. An owner can do
the same in the dashboard. Use this when a thief has an owner's access and no other owner is left. checkout merchant
show lists the scheduled changes. The audit log gets an entry, and every owner gets an e-mail.`,
			example: "  checkout merchant stop-address mer_06gzx1s5q8v2m9kd3yet7b4wnc USDC",
			args:    idAnd(checkout.PrefixMerchant, listsMerchants, "the currency"),
			check: func(c *call) error {
				if !money.PayoutCurrency(c.args[1]).Valid() {
					return fmt.Errorf("%q is not a payout currency; use one of %s", c.args[1], payoutNetworks())
				}
				return nil
			},
			run: withKeyless(keylessCall.stopAddress),
		},
		planCommand, termsCommand, suspendCommand, resumeCommand,
		{
			use:   "list",
			short: "List every merchant, the highest risk first",
			long: `Lists every merchant with what it did in the last 30 days: its payments and their volume, the share of payments that
are disputed and refunded, what it owes, what it is owed, and what is suspended. The highest share of disputes comes
first, then the largest debt, the most payments and the newest merchant.`,
			args:   words(),
			flags:  flagsOfRisk,
			values: map[string][]string{"mode": modes},
			asJSON: true,
			check:  (*call).checkMode,
			run:    withKeyless(keylessCall.listMerchants),
		},
		{
			use:    "show mer_…",
			short:  "Show one merchant with its payout addresses",
			args:   idAnd(checkout.PrefixMerchant, listsMerchants),
			flags:  flagsOfRisk,
			values: map[string][]string{"mode": modes},
			asJSON: true,
			check:  (*call).checkMode,
			run:    withKeyless(keylessCall.showMerchant),
		},
	},
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

func noMerchant(err error, id string) error {
	return explain(err, checkout.ErrNotFound, "there is no merchant %s", id)
}

// newMerchant holds the flags of merchant create.
type newMerchant struct {
	merchant.Merchant
	modes     []checkout.Mode // modes of the addresses
	addresses []merchant.PayoutAddress
}

// newMerchant reads the flags of merchant create.
func (c *call) newMerchant() (n newMerchant, err error) {
	n.Merchant = merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: c.text("name"), Plan: c.text("plan"),
		FeeBasisPoints: merchant.DefaultFeeBasisPoints, PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}
	for _, flag := range []string{"name", "plan"} {
		if err := c.checkLabel(flag); err != nil {
			return n, err
		}
	}
	switch mode := c.text("mode"); mode {
	case bothModes:
		n.modes = []checkout.Mode{checkout.ModeTest, checkout.ModeLive}
	case string(checkout.ModeTest), string(checkout.ModeLive):
		n.modes = []checkout.Mode{checkout.Mode(mode)}
	default:
		return n, fmt.Errorf("--mode must be test, live or both, not %q", mode)
	}
	payouts, _ := c.flags.GetStringArray("payout")
	for _, text := range payouts {
		if n.addresses, err = addPayout(n.addresses, text); err != nil {
			return n, fmt.Errorf("--payout: %w", err)
		}
	}
	if c.text("owner") != "" {
		if err := c.checkEmail("owner"); err != nil {
			return n, err
		}
	}
	return n, n.checkAddresses(address.Rules{}) // before the settings are read, the rules are not known
}

// checkAddresses checks the payout addresses as the dashboard does.
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

// addPayout adds the address of a flag --payout, CURRENCY=network:address.
func addPayout(addresses []merchant.PayoutAddress, text string) ([]merchant.PayoutAddress, error) {
	currency, rest, _ := strings.Cut(text, "=")
	network, address, ok := strings.Cut(rest, ":")
	to := merchant.PayoutAddress{Currency: money.PayoutCurrency(currency), Network: network, Address: address}
	switch {
	case !ok || address == "":
		return nil, errors.New("must be CURRENCY=network:address, such as USDC=ethereum:0x…")
	case !to.Currency.Valid():
		return nil, fmt.Errorf("%q is not a payout currency; use one of %s", currency, payoutNetworks())
	case network != to.Currency.Network():
		return nil, fmt.Errorf("%s is paid out on %s, not on %q", currency, to.Currency.Network(), network)
	case slices.ContainsFunc(addresses, func(a merchant.PayoutAddress) bool { return a.Currency == to.Currency }):
		return nil, fmt.Errorf("%s appears twice", to.Currency)
	}
	return append(addresses, to), nil
}

// createMerchant also shows what was made before an error.
func (c keylessCall) createMerchant(ctx context.Context) (got result, err error) {
	n := c.order.(newMerchant)
	if err := n.checkAddresses(c.settings.PayoutAddressRules()); err != nil {
		return nil, err
	}
	for _, mode := range n.modes {
		if err := c.Merchants.CreateMerchant(ctx, n.Merchant, mode, n.addresses); err != nil {
			return nil, fmt.Errorf("%s is incomplete, create another: %w", n.ID, err)
		}
	}
	got = result{n.ID}
	if len(n.addresses) == 0 {
		got = append(got, note("The merchant has no payout address: its payouts will fail."))
	}
	if email := c.text("owner"); email != "" {
		link, err := c.invite(ctx, merchant.Member{MerchantID: n.ID, Email: email, Role: merchant.RoleOwner})
		if err != nil {
			return got, fmt.Errorf("%s has no owner yet; checkout merchant invite makes one: %w", n.ID, err)
		}
		got = append(got, link...)
	}
	if !c.isSet("with-key") {
		return got, nil
	}
	key, err := c.createKey(ctx, merchant.APIKey{
		Ref:   checkout.Owner{MerchantID: n.ID, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixAPIKey)),
		Label: firstKeyLabel, Scopes: merchant.Scopes{merchant.ScopeFull},
	})
	return append(got, key...), err
}

// listedMerchant is a merchant in JSON.
type listedMerchant struct {
	ID        string             `json:"id"`
	Name      string             `json:"name"`
	Plan      string             `json:"plan"`
	Fee       int64              `json:"fee_basis_points"`
	FeeFixed  money.Amount       `json:"fee_fixed"`
	Settings  merchant.Settings  `json:"settings"`
	Suspended merchant.Suspended `json:"suspended,omitempty"`
	CreatedAt string             `json:"created_at"`
}

func listMerchant(m merchant.Merchant) listedMerchant {
	return listedMerchant{
		m.ID, m.Name, m.Plan, m.FeeBasisPoints, m.FeeFixed,
		merchant.Settings{PaymentAttempts: m.PaymentAttempts, OrderIDGuard: m.OrderIDGuard}, m.Suspended,
		checkout.FormatTime(m.CreatedAt),
	}
}

// listedChange is a scheduled change of a payout address in JSON.
type listedChange struct {
	merchant.PayoutAddress

	At string `json:"at"`
	By string `json:"by"`
}

func (c keylessCall) showMerchant(ctx context.Context) (result, error) {
	risk, err := c.Merchants.MerchantRisk(ctx, checkout.Owner{MerchantID: c.args[0], Mode: c.mode()})
	if err != nil {
		return nil, noMerchant(err, c.args[0])
	}
	m := risk.Merchant
	rows := &table{}
	rows.add("id", m.ID)
	rows.add("name", m.Name)
	rows.add("plan", m.Plan)
	rows.add("fee", m.Fee())
	rows.add("terms", m.Terms.Words())
	rows.add("failed payments per session", m.PaymentAttempts)
	rows.add("refuses a second session for an order", m.OrderIDGuard)
	rows.add("created", m.CreatedAt)
	addRisk(rows, c.mode(), risk)
	suspension, err := c.Merchants.Suspension(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	var since, why string
	if len(suspension.Suspended) > 0 {
		since, why = showTime(suspension.At), suspension.Why
		rows.add("suspended", fmt.Sprintf("%s, since %s", suspension.Suspended, since))
		rows.add("suspended because", why)
	}

	addresses := map[checkout.Mode][]merchant.PayoutAddress{}
	scheduled := map[checkout.Mode][]listedChange{}
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		got, err := c.Merchants.PayoutAddresses(ctx, m.Owner(mode))
		if err != nil {
			return nil, err
		}
		addresses[mode] = append([]merchant.PayoutAddress{}, got...) // an empty list in JSON, not null
		for _, to := range got {
			rows.add(fmt.Sprintf("payout %s, %s mode", to.Currency, mode), to.Network+":"+to.Address)
		}
		changes, err := c.Merchants.AddressChanges(ctx, m.Owner(mode))
		if err != nil {
			return nil, err
		}
		for _, to := range changes {
			rows.add(fmt.Sprintf("from %s on", showTime(&to.At)),
				fmt.Sprintf("payout %s, %s mode: %s, by %s", to.Currency, mode, cmp.Or(to.Address, "none"), to.By))
			scheduled[mode] = append(scheduled[mode], listedChange{to.PayoutAddress, checkout.FormatTime(to.At), to.By})
		}
	}
	return result{data{struct {
		listedMerchant
		listedRisk
		Terms     string                                     `json:"terms"`
		Addresses map[checkout.Mode][]merchant.PayoutAddress `json:"payout_addresses"`
		Scheduled map[checkout.Mode][]listedChange           `json:"scheduled_payout_addresses,omitempty"`
		Since     string                                     `json:"suspended_at,omitempty"`
		Why       string                                     `json:"suspended_why,omitempty"`
	}{listMerchant(m), listRisk(c.mode(), risk), m.Terms.Words(), addresses, scheduled, since, why}}, rows}, nil
}

func (c keylessCall) stopAddress(ctx context.Context) (result, error) {
	currency := money.PayoutCurrency(c.args[1])
	live := checkout.Owner{MerchantID: c.args[0], Mode: checkout.ModeLive}
	all, err := c.Merchants.AddressChanges(ctx, live)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(a merchant.AddressChange) bool { return a.Currency == currency })
	if at < 0 {
		return nil, fmt.Errorf("no change of the %s address of %s is scheduled", currency, live.MerchantID)
	}
	to := all[at].PayoutAddress
	err = action.StopAddressChange(ctx, c.Keyless.Merchants, live, to, action.Operator)
	target := cmp.Or(to.Address, "no address")
	err = explain(err, checkout.ErrNotFound,
		"the change to %s has ended or was replaced meanwhile; see checkout merchant show %s", target, live.MerchantID)
	return resultLine(err, "the change to %s is stopped; payouts in %s continue to the present address", target, currency)
}
