package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"example.com/checkout/workflows/checkout"
)

var merchantCommands = accountCommands{
	name: "merchant",
	usage: `usage: checkout merchant COMMAND

  create --name "Shop" [--plan standard] [--payout USDC=ethereum:0xabc …] [--mode test|live|both] [--owner e-mail] [--with-key]
                   make a merchant and print its id; with --owner also the link with which its first owner signs in to
                   the dashboard; with --with-key also a first test key, on the last line. Neither is shown again
  invite mer_… --email somebody@shop.example [--role owner|developer|viewer]
                   print a link with which somebody signs in to the dashboard, an owner unless --role says otherwise
  plan mer_… PLAN [--fee-basis-points 65]
                   give a merchant another plan from its next payment on; a plan that is not
                   ` + knownPlans() + ` needs its fee, of which 100 is 1 %
  list [--json]    every merchant, newest first
  show mer_… [--json]
                   one merchant with its payout addresses

--payout says where a currency is paid out, once for each currency; --mode for which mode, test unless it is given.
Networks: ` + payoutNetworks() + `.

These need DATABASE_URL, and CHECKOUT_DASHBOARD_URL for links, and no other setting.
`,
	parse: map[string]func([]string) (accountAction, error){"create": parseMerchantCreate, "invite": parseMerchantInvite, "plan": parseMerchantPlan, "list": parseMerchantList, "show": parseMerchantShow},
}

func payoutNetworks() string {
	var networks []string
	for _, c := range checkout.PayoutCurrencies {
		networks = append(networks, string(c)+"="+c.Network())
	}
	return strings.Join(networks, ", ")
}

const (
	standardPlan   = "standard"
	firstKeyLabel  = "first key"
	sandboxAddress = "sandbox:" // the prefix of addresses that exist in test mode only
)

// newMerchant is what merchant create is asked for.
type newMerchant struct {
	checkout.Merchant
	modes     []checkout.Mode // that the addresses are for
	addresses []checkout.PayoutAddress
	owner     string // e-mail address, "" for none yet
	withKey   bool
}

func parseMerchantCreate(args []string) (accountAction, error) {
	n := newMerchant{Merchant: checkout.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), FeeBasisPoints: checkout.DefaultFeeBasisPoints,
		PaymentAttempts: checkout.DefaultPaymentAttempts, OrderIDGuard: true,
	}}
	var mode string
	flags := flag.NewFlagSet("merchant create", flag.ContinueOnError)
	flags.StringVar(&n.Name, "name", "", "")
	flags.StringVar(&n.Plan, "plan", standardPlan, "")
	flags.StringVar(&mode, "mode", string(checkout.ModeTest), "")
	flags.StringVar(&n.owner, "owner", "", "")
	flags.BoolVar(&n.withKey, "with-key", false, "")
	flags.Func("payout", "", func(text string) error {
		to, err := parsePayout(text)
		if slices.ContainsFunc(n.addresses, func(other checkout.PayoutAddress) bool { return other.Currency == to.Currency }) {
			return fmt.Errorf("%s is there twice", to.Currency)
		}
		n.addresses = append(n.addresses, to)
		return err
	})
	if _, err := parseWords(flags, args); err != nil {
		return nil, err
	}
	if err := errors.Join(checkWords("name", n.Name), checkWords("plan", n.Plan)); err != nil {
		return nil, err
	}
	if n.owner != "" && !checkout.ValidEmail(n.owner) {
		return nil, errOwner
	}
	switch mode {
	case "both":
		n.modes = []checkout.Mode{checkout.ModeTest, checkout.ModeLive}
	case string(checkout.ModeTest), string(checkout.ModeLive):
		n.modes = []checkout.Mode{checkout.Mode(mode)}
	default:
		return nil, fmt.Errorf("--mode must be test, live or both, not %q", mode)
	}
	for _, to := range n.addresses {
		if strings.HasPrefix(to.Address, sandboxAddress) && slices.Contains(n.modes, checkout.ModeLive) {
			return nil, fmt.Errorf("--payout %s: %s… is an address of test mode", to.Currency, sandboxAddress)
		}
	}
	return func(ctx context.Context, c console) error { return c.createMerchant(ctx, n) }, nil
}

const maxAddress = 200 // characters; real ones have less than half of it

// parsePayout reads CURRENCY=network:address.
func parsePayout(text string) (checkout.PayoutAddress, error) {
	currency, rest, _ := strings.Cut(text, "=")
	network, address, ok := strings.Cut(rest, ":")
	to := checkout.PayoutAddress{Currency: checkout.PayoutCurrency(currency), Network: network, Address: address}
	switch {
	case !ok || address == "":
		return to, errors.New("must be CURRENCY=network:address, such as USDC=ethereum:0xabc")
	case !to.Currency.Valid():
		return to, fmt.Errorf("%q is not a payout currency; there are %s", currency, payoutNetworks())
	case network != to.Currency.Network():
		return to, fmt.Errorf("%s is paid out on %s, not on %q", currency, to.Currency.Network(), network)
	case len(address) > maxAddress || strings.ContainsFunc(address, outsideAddress):
		return to, fmt.Errorf("an address has at most %d letters, digits and signs, and no spaces", maxAddress)
	}
	return to, nil
}

func outsideAddress(r rune) bool { return r <= ' ' || r > '~' }

func (c console) createMerchant(ctx context.Context, n newMerchant) error {
	for _, mode := range n.modes {
		if err := c.CreateMerchant(ctx, n.Merchant, mode, n.addresses); err != nil {
			return fmt.Errorf("%s is not complete, create another: %w", n.ID, err)
		}
	}
	if _, err := fmt.Fprintln(c.out, n.ID); err != nil {
		return err
	}
	if len(n.addresses) == 0 {
		fmt.Fprintln(c.notes, "The merchant has no payout address: its payouts will fail.")
	}
	if n.owner != "" {
		if err := c.invite(ctx, checkout.Member{MerchantID: n.ID, Email: n.owner, Role: checkout.RoleOwner}); err != nil {
			return fmt.Errorf("%s has no owner yet; checkout merchant invite makes one: %w", n.ID, err)
		}
	}
	if !n.withKey {
		return nil
	}
	return c.createKey(ctx, checkout.APIKey{
		Ref:   checkout.Owner{MerchantID: n.ID, Mode: checkout.ModeTest}.Ref(checkout.NewID(checkout.PrefixAPIKey)),
		Label: firstKeyLabel, Scopes: checkout.Scopes{checkout.ScopeFull},
	})
}

// listedMerchant is a merchant as --json shows it.
type listedMerchant struct {
	ID        string                    `json:"id"`
	Name      string                    `json:"name"`
	Plan      string                    `json:"plan"`
	Fee       int64                     `json:"fee_basis_points"`
	Settings  checkout.MerchantSettings `json:"settings"`
	CreatedAt string                    `json:"created_at"`
}

func listMerchant(m checkout.Merchant) listedMerchant {
	return listedMerchant{m.ID, m.Name, m.Plan, m.FeeBasisPoints,
		checkout.MerchantSettings{PaymentAttempts: m.PaymentAttempts, OrderIDGuard: m.OrderIDGuard}, checkout.FormatTime(m.CreatedAt)}
}

func parseMerchantList(args []string) (accountAction, error) {
	flags := flag.NewFlagSet("merchant list", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	if _, err := parseWords(flags, args); err != nil {
		return nil, err
	}
	return func(ctx context.Context, c console) error { return c.listMerchants(ctx, *asJSON) }, nil
}

func (c console) listMerchants(ctx context.Context, asJSON bool) error {
	merchants, err := c.Merchants(ctx)
	if err != nil {
		return err
	}
	listed := make([]listedMerchant, 0, len(merchants))
	rows := [][]string{{"ID", "NAME", "PLAN", "CREATED"}}
	for _, m := range merchants {
		listed = append(listed, listMerchant(m))
		rows = append(rows, []string{m.ID, m.Name, m.Plan, showTime(&m.CreatedAt)})
	}
	if asJSON {
		return c.printJSON(listed)
	}
	return c.printTable(rows...)
}

func parseMerchantShow(args []string) (accountAction, error) {
	flags := flag.NewFlagSet("merchant show", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	id, err := parseID(flags, args, checkout.PrefixMerchant, "checkout merchant list")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c console) error { return c.showMerchant(ctx, id, *asJSON) }, nil
}

func (c console) showMerchant(ctx context.Context, id string, asJSON bool) error {
	m, err := c.findMerchant(ctx, id)
	if err != nil {
		return err
	}
	rows := [][]string{
		{"id", m.ID}, {"name", m.Name}, {"plan", m.Plan},
		{"fee", checkout.FeePercent(m.FeeBasisPoints)},
		{"failed payments that end a session", fmt.Sprint(m.PaymentAttempts)},
		{"refuses a second session for an order", fmt.Sprint(m.OrderIDGuard)},
		{"created", showTime(&m.CreatedAt)},
	}
	addresses := map[checkout.Mode][]checkout.PayoutAddress{}
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		got, err := c.PayoutAddresses(ctx, checkout.Owner{MerchantID: id, Mode: mode})
		if err != nil {
			return err
		}
		addresses[mode] = append([]checkout.PayoutAddress{}, got...) // in JSON never null
		for _, to := range got {
			rows = append(rows, []string{fmt.Sprintf("payout %s, %s mode", to.Currency, mode), to.Network + ":" + to.Address})
		}
	}
	if asJSON {
		return c.printJSON(struct {
			listedMerchant
			Addresses map[checkout.Mode][]checkout.PayoutAddress `json:"payout_addresses"`
		}{listMerchant(m), addresses})
	}
	return c.printTable(rows...)
}
