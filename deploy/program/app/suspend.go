package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// capabilityFlags are the flags that choose what is suspended, in the order of the capabilities.
var capabilityFlags = []struct {
	name       string
	capability merchant.Capability
	usage      string
}{
	{"payments", merchant.CapabilityPayments, "creating sessions and paying them"},
	{"payouts", merchant.CapabilityPayouts, "signing payouts"},
	{"sign-in", merchant.CapabilitySignIn, "using the dashboard"},
}

func flagsOfCapabilities(f *pflag.FlagSet) {
	for _, c := range capabilityFlags {
		f.Bool(c.name, false, c.usage)
	}
}

// capabilities returns the chosen capabilities, none when no flag chooses. A flag that is false chooses nothing, and is
// refused, because it reads like a choice of the others.
func (c *call) capabilities() (chosen merchant.Suspended, err error) {
	for _, f := range capabilityFlags {
		if on, _ := c.flags.GetBool(f.name); on {
			chosen = append(chosen, f.capability)
		} else if c.flags.Changed(f.name) {
			err = fmt.Errorf("--%s takes no value; leave it out", f.name)
		}
	}
	return chosen, err
}

// checkResume demands a choice: one operator must not resume what another has suspended for another reason.
func (c *call) checkResume() error {
	chosen, err := c.capabilities()
	if all, _ := c.flags.GetBool(resumeAll); err == nil && all == (len(chosen) > 0) {
		err = errors.New("choose --payments, --payouts or --sign-in, or --all; checkout merchant show has the reasons")
	}
	return err
}

const resumeAll = "all"

var suspendCommand = command{
	use:   "suspend mer_… --reason TEXT",
	short: "Suspend a merchant's payments and payouts, or its sign-in",
	long: `Suspends a merchant in both modes, in every process within a second, until checkout merchant resume. Without a flag
that chooses, payments and payouts are suspended.

--payments: POST /v1/checkout returns 403 merchant_suspended, and open sessions cannot be paid. A payment that has begun
is completed. --payouts: nothing is signed; payouts wait on hold. A signed transfer is sent. --sign-in: people are
signed out of the dashboard. API keys still read, and deliveries continue.

The reason is shown by checkout merchant show and in the audit log, which all of the merchant's people can read.`,
	example: `  checkout merchant suspend mer_06gzx1s5q8v2m9kd3yet7b4wnc --reason "the bank reports stolen cards"
  checkout merchant suspend mer_06gzx1s5q8v2m9kd3yet7b4wnc --reason "an owner's phone was stolen" --sign-in --payouts`,
	args: idAnd(checkout.PrefixMerchant, listsMerchants),
	flags: func(f *pflag.FlagSet) {
		f.String("reason", "", "why (required)")
		flagsOfCapabilities(f)
	},
	check: func(c *call) error {
		_, err := c.capabilities()
		return errors.Join(err, c.checkLabel("reason"))
	},
	run: withKeyless(keylessCall.suspend),
}

var resumeCommand = command{
	use:   "resume mer_…",
	short: "Resume what is suspended of a merchant",
	long: `Resumes what checkout merchant suspend has suspended. Payouts that waited are sent within two minutes, unless
something else holds them.`,
	example: "  checkout merchant resume mer_06gzx1s5q8v2m9kd3yet7b4wnc --payments",
	args:    idAnd(checkout.PrefixMerchant, listsMerchants),
	flags: func(f *pflag.FlagSet) {
		flagsOfCapabilities(f)
		f.Bool(resumeAll, false, "everything that is suspended")
	},
	check: (*call).checkResume,
	run:   withKeyless(keylessCall.resume),
}

func (c keylessCall) suspend(ctx context.Context) (result, error) {
	chosen, err := c.capabilities()
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		chosen = merchant.Suspended{merchant.CapabilityPayments, merchant.CapabilityPayouts}
	}
	return c.suspensionResult(
		action.Suspend(ctx, c.Keyless.Merchants, c.args[0], chosen, c.text("reason"), action.Operator))
}

func (c keylessCall) resume(ctx context.Context) (result, error) {
	chosen, err := c.capabilities()
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		for _, f := range capabilityFlags {
			chosen = append(chosen, f.capability)
		}
	}
	return c.suspensionResult(action.Resume(ctx, c.Keyless.Merchants, c.args[0], chosen, action.Operator))
}

func (c keylessCall) suspensionResult(got merchant.Suspension, err error) (result, error) {
	err = noMerchant(err, c.args[0])
	if len(got.Suspended) == 0 {
		return resultLine(err, "nothing is suspended of %s", c.args[0])
	}
	return resultLine(err, "suspended of %s: %s", c.args[0], got.Suspended)
}
