package activities

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/workflows/checkout"
)

// alarm is a kind of alarm about money.
type alarm string

const (
	alarmTreasury alarm = "treasury" // of a round of the treasury
	alarmSigner   alarm = "signer"   // it signs no payout
	alarmLarge    alarm = "large"    // a payout waits for a person because of its size
	alarmCharge   alarm = "charge"   // the card network refuses to begin a charge
)

// held are the alarms about payouts on hold, with what they say about one.
var held = map[checkout.PayoutHold]struct {
	alarm
	says string
}{
	checkout.HoldSigner: {alarmSigner, "the signer refused the payout, or did not answer: "},
	checkout.HoldLarge:  {alarmLarge, "a person must release the payout, which is above the limits: "},
}

// alarmRaised is the time of the last alarm, so that the first of a process counts too. An error here means a
// bad instrument name: a bug.
var alarmRaised, _ = meter.Int64Gauge("checkout.alarm.raised", metric.WithUnit("s"),
	metric.WithDescription("When an alarm about money was last raised, in seconds since 1970."))

// raiseAlarm tells operators, in the log and with a metric, what a person must look at. Source: deploy/release/live.md,
// "What an alarm means".
func raiseAlarm(ctx context.Context, mode checkout.Mode, kind alarm, says string) {
	logger(ctx).ErrorContext(ctx, "treasury", "mode", mode, "alarm", says)
	alarmRaised.Record(ctx, time.Now().Unix(), metric.WithAttributes(modeKey.String(string(mode)),
		alarmKey.String(string(kind))))
}
