package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// Addresses that belong to a merchant. They are those of EIP-55 and BIP-173.
const (
	ethereumAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	bitcoinAddress  = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
)

// shownMerchant is a merchant in the output of merchant list and show with --json.
type shownMerchant struct {
	ID        string                                     `json:"id"`
	Name      string                                     `json:"name"`
	Plan      string                                     `json:"plan"`
	Fee       int                                        `json:"fee_basis_points"`
	FeeFixed  json.Number                                `json:"fee_fixed"`
	Settings  merchant.Settings                          `json:"settings"`
	CreatedAt string                                     `json:"created_at"`
	Addresses map[checkout.Mode][]merchant.PayoutAddress `json:"payout_addresses"`
}

func TestMerchantCreate_PrintsTheIDAlone(t *testing.T) {
	o := newOperator(t)
	out, notes, err := o.run("merchant", "create", "--name", "Café <Ann & Bob>")
	require.NoError(t, err)
	require.Regexp(t, "^mer_[0-9a-z]{26}\n$", out)
	require.Contains(t, notes, "no payout address")
	text := o.must("merchant", "show", strings.TrimSpace(out), "--json")
	require.Contains(t, text, "Café <Ann & Bob>", "without escapes")
	got := decode[shownMerchant](t, text)
	require.NotEmpty(t, got.CreatedAt)
	got.CreatedAt = ""
	require.Equal(t, shownMerchant{
		ID: strings.TrimSpace(out), Name: "Café <Ann & Bob>", Plan: "standard", Fee: 100, FeeFixed: "0.00",
		Settings:  merchant.Settings{PaymentAttempts: 3, OrderIDGuard: true},
		Addresses: map[checkout.Mode][]merchant.PayoutAddress{"test": {}, "live": {}},
	}, got)
}

func TestMerchantCreate_StoresThePayoutAddressesOfTheMode(t *testing.T) {
	o := newOperator(t)
	usdc := merchant.PayoutAddress{Currency: "USDC", Network: "ethereum", Address: ethereumAddress}
	btc := merchant.PayoutAddress{Currency: "BTC", Network: "bitcoin", Address: bitcoinAddress}
	both := []merchant.PayoutAddress{btc, usdc} // by currency
	for _, c := range []struct {
		mode string
		want map[checkout.Mode][]merchant.PayoutAddress
	}{
		{"test", map[checkout.Mode][]merchant.PayoutAddress{"test": both, "live": {}}},
		{"live", map[checkout.Mode][]merchant.PayoutAddress{"test": {}, "live": both}},
		{"both", map[checkout.Mode][]merchant.PayoutAddress{"test": both, "live": both}},
	} {
		out, notes, err := o.run("merchant", "create", "--name", "Shop", "--plan", "large", "--mode", c.mode,
			"--payout", "USDC=ethereum:"+ethereumAddress, "--payout", "BTC=bitcoin:"+bitcoinAddress)
		require.NoError(t, err)
		require.Empty(t, notes)
		got := decode[shownMerchant](t, o.must("merchant", "show", "--json", strings.TrimSpace(out)))
		require.Equal(t, c.want, got.Addresses, c.mode)
		require.Equal(t, "large", got.Plan)
	}
	sandbox := strings.TrimSpace(o.must("merchant", "create", "--name", "Shop", "--payout", "USDC=ethereum:sandbox:shop"))
	shown := o.must("merchant", "show", sandbox)
	require.Regexp(t, `payout USDC, test mode +ethereum:sandbox:shop\n`, shown)
	require.Regexp(t, `(?m)^fee +1\.00 %$`, shown)
}

// TestMerchantCreate_ChecksThePayoutAddress by the rules of the settings, as the dashboard does. Each mode has a file
// of sanctions, and the text does not say why.
func TestMerchantCreate_ChecksThePayoutAddress(t *testing.T) {
	o := newOperator(t)
	file := filepath.Join(t.TempDir(), "sanctions")
	require.NoError(t, os.WriteFile(file, []byte(ethereumAddress+"\n"), 0o600))
	const usdcContract = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
	sanctions, treasury := "CHECKOUT_SANCTIONS_FILE="+file, "CHECKOUT_ETHEREUM_TREASURY="+ethereumAddress
	for _, c := range []struct{ setting, mode, address, want string }{
		{"CHECKOUT_TEST_CHAINS=networks", "test", "sandbox:shop", "is one of the sandbox, and payouts are sent on a test network here"},
		{"CHECKOUT_TEST_CHAINS=networks", "test", ethereumAddress, ""},
		{"CHECKOUT_TEST_CHAINS=sandbox", "test", "sandbox:shop", ""},
		{"CHECKOUT_TEST_CHAINS=canary", "test", "sandbox:shop", "CHECKOUT_TEST_CHAINS must be sandbox or networks"},
		{sanctions, "live", strings.ToLower(ethereumAddress), "the address cannot be used for payouts"},
		{sanctions, "test", strings.ToLower(ethereumAddress), ""},
		{treasury, "both", ethereumAddress, "the treasury's or a contract's"},
		{treasury, "both", strings.ToLower(ethereumAddress), "the treasury's or a contract's"},
		{treasury, "both", usdcContract, "the treasury's or a contract's"},
		{treasury, "test", ethereumAddress, ""},
		{treasury, "test", "0x0000000000000000000000000000000000000001", "the address is below 0x10000"},
	} {
		o.environment = []string{c.setting}
		create := []string{"merchant", "create", "--name", "Shop", "--mode", c.mode, "--payout", "USDC=ethereum:" + c.address}
		if c.want == "" {
			o.must(create...)
		} else {
			o.refused(c.want, create...)
		}
	}
	o.environment = nil
	require.Len(t, decode[[]shownMerchant](t, o.must("merchant", "list", "--json")), 4, "a refused command stores nothing")
}

func TestMerchantInvite_PrintsALinkThatSignsIn(t *testing.T) {
	o := newOperator(t)
	out, notes, err := o.run("merchant", "create", "--name", "Shop", "--owner", "ann@shop.example", "--with-key", "--mode", "live")
	require.NoError(t, err)
	require.Contains(t, notes, "ann@shop.example")
	lines := strings.Split(out, "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `^http://127\.0\.0\.1:8083/invitation/[A-Za-z0-9_-]{43}$`, lines[1])
	caller, err := authenticate(t, o.store(), lines[2])
	require.NoError(t, err, "the key is the last line")
	require.Equal(t, lines[0], caller.Merchant.ID)
	require.Equal(t, merchant.Scopes{"full"}, caller.Key.Scopes)
	require.Equal(t, checkout.ModeTest, caller.Key.Mode, "a live key needs checkout key create")

	link := strings.TrimSpace(o.must("merchant", "invite", lines[0], "--email", "bob@shop.example", "--role", "viewer"))
	_, token, _ := strings.Cut(link, "/invitation/")
	bob, err := login.Accept(t.Context(), o.store().People, token, "a password of his", "")
	require.NoError(t, err)
	require.Equal(t, merchant.RoleViewer, bob.Role)
	require.Equal(t, lines[0], bob.MerchantID)

	again := strings.TrimSpace(o.must("merchant", "invite", lines[0], "--email", "ann@shop.example"))
	require.NotEqual(t, lines[1], again, "it replaces the open invitation")

	for want, args := range map[string][]string{
		"the merchant already has a member with that address": {lines[0], "--email", "BOB@shop.example"},
		"bare e-mail address":                  {lines[0], "--email", "Ann <ann@shop.example>"},
		"--email is not a bare e-mail address": {lines[0], "--email", "ann@shop"},
		"--role must be one of":                {lines[0], "--email", "eve@shop.example", "--role", "admin"},
		"no such merchant":                     {checkout.NewID(checkout.PrefixMerchant), "--email", "eve@shop.example"},
	} {
		_, _, err := o.run(append([]string{"merchant", "invite"}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

func TestMerchantResetFactor_TurnsEverythingOff(t *testing.T) {
	o := newOperator(t)
	lines := strings.Split(o.must("merchant", "create", "--name", "Shop", "--owner", "ann@shop.example", "--with-key"), "\n")
	_, token, _ := strings.Cut(lines[1], "/invitation/")
	store := o.store()
	ann, err := login.Accept(t.Context(), store.People, token, "a password of hers", "")
	require.NoError(t, err)
	reset := []string{"merchant", "reset-factor", lines[0], "--email", "ANN@shop.example"}
	_, _, err = o.run(reset...)
	require.ErrorContains(t, err, "has no second factor")
	entry := merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: lines[0], Actor: "test", Action: "member.passkey_added", Subject: ann.ID,
	}
	_, err = store.People.AddPasskey(t.Context(), people.NewPasskey{
		Passkey:    merchant.Passkey{ID: checkout.NewID(checkout.PrefixPasskey), Name: "Laptop", Credential: []byte("{}")},
		MerchantID: lines[0], MemberID: ann.ID, CredentialID: []byte{1}, Recovery: [][]byte{{2}},
	}, entry)
	require.NoError(t, err)
	require.Contains(t, o.must(reset...), "no longer has a second factor")
	ann, err = store.People.Member(t.Context(), lines[0], ann.ID)
	require.NoError(t, err)
	require.False(t, ann.SecondFactor())
	left, err := store.People.RecoveryCodes(t.Context(), lines[0], ann.ID)
	require.NoError(t, err)
	require.Zero(t, left)
	for want, args := range map[string][]string{
		"no member with that address": {lines[0], "--email", "eve@shop.example"},
		"bare e-mail address":         {lines[0], "--email", "ann"},
	} {
		_, _, err := o.run(append([]string{"merchant", "reset-factor"}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

func TestMerchantStopAddress_StopsWhatIsScheduled(t *testing.T) {
	o := newOperator(t)
	id := strings.TrimSpace(o.must("merchant", "create", "--name", "Shop", "--mode", "live",
		"--payout", "USDC=ethereum:0x52908400098527886E0F7030069857D2E4169EE7"))
	store := o.store()
	change := storage.MerchantChange{
		MerchantID: id, Mode: checkout.ModeLive, Delay: time.Hour, By: merchant.AuditEntry{MerchantID: id, Actor: "thief@shop.example"},
		Addresses: []merchant.PayoutAddress{{Currency: money.USDC, Network: money.Ethereum, Address: "0xdef"}},
	}
	_, err := store.Merchants.ChangeMerchant(t.Context(), change)
	require.NoError(t, err)
	require.Contains(t, o.must("merchant", "show", id), "payout USDC, live mode: 0xdef, by thief@shop.example")

	o.refused("no change of the ETH address", "merchant", "stop-address", id, "ETH")
	require.Contains(t, o.must("merchant", "stop-address", id, "USDC"), "the change to 0xdef is stopped")

	o.refused("no change of the USDC address", "merchant", "stop-address", id, "USDC")
	require.NotContains(t, o.must("merchant", "show", id), "0xdef")
}

func TestMerchantTerms_ChangeWhatAFlagNames(t *testing.T) {
	o := newOperator(t)
	id := o.merchant()
	o.refused("choose what to change", "merchant", "terms", id)
	o.refused("a reserve needs a percentage and days", "merchant", "terms", id, "--reserve", "1000")
	o.refused("the recovery percentage must be from 1 to 100", "merchant", "terms", id, "--recovery", "0")
	o.refused("no merchant", "merchant", "terms", "mer_06gzx1s5q8v2m9kd3yet7b4wnc", "--recovery", "50")
	const unset = "reserve none, payout delay default, debt limit default, recovery 100 %"
	require.Regexp(t, `(?m)^terms +`+unset+`$`, o.must("merchant", "show", id))
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--reserve", "1000", "--reserve-days", "90", "--delay-hours", "72"}, "reserve 10.00 % for 90 days, payout delay 72 h, debt limit default, recovery 100 %"},
		{[]string{"--debt", "500.00", "--recovery", "50"}, "reserve 10.00 % for 90 days, payout delay 72 h, debt limit 500.00, recovery 50 %"},
		{[]string{"--reserve", "0", "--delay-hours", "-1", "--debt", "default", "--recovery", "100"}, unset},
	} {
		call := append([]string{"merchant", "terms", id}, c.flags...)
		require.Equal(t, id+": "+c.want+"; its webhooks get merchant.updated\n", o.must(call...))
		require.Contains(t, o.must(call...), ", unchanged")
		require.Equal(t, c.want, decode[map[string]any](t, o.must("merchant", "show", id, "--json"))["terms"])
	}
}

func TestMerchantSuspend_IsShownWithItsTimeAndReason(t *testing.T) {
	o := newOperator(t)
	id := o.merchant()
	o.refused("--reason is missing or empty", "merchant", "suspend", id)
	o.refused("--payments takes no value", "merchant", "suspend", id, "--payments=false", "--reason", "first")
	o.refused("choose --payments, --payouts or --sign-in, or --all", "merchant", "resume", id)
	o.must("merchant", "suspend", id, "--payouts", "--reason", "first")
	require.Equal(t, "suspended of "+id+": payouts, sign-in\n", o.must("merchant", "suspend", id, "--sign-in", "--reason", "a stolen phone"))
	require.Contains(t, o.must("merchant", "list"), "payouts, sign-in")
	got := decode[map[string]any](t, o.must("merchant", "show", id, "--json"))
	require.Equal(t, []any{[]any{"payouts", "sign_in"}, "payouts: first; sign-in: a stolen phone"}, []any{got["suspended"], got["suspended_why"]})
	require.NotEmpty(t, got["suspended_at"])
	require.Equal(t, "nothing is suspended of "+id+"\n", o.must("merchant", "resume", id, "--all"))
	require.NotContains(t, o.must("merchant", "show", id), "stolen")
}
