package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"example.com/checkout/activities"
	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/treasury"
)

// modeTreasury is the treasury of a mode, with the chains whose nodes are ready. It implements activities.PayoutSender.
// Payouts of the other chains are tried again.
type modeTreasury struct {
	chains   Chains
	treasury treasurer.Treasury // without Chains
	synced   atomic.Int64       // when a round last succeeded, in seconds since 1970
}

// open returns the treasury with the chains that are ready.
func (m *modeTreasury) open() *treasurer.Treasury {
	t := m.treasury
	t.Chains = m.chains.Ready()
	return &t
}

// Transfer implements activities.PayoutSender.
func (m *modeTreasury) Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	t := m.open()
	if chain := m.chains[p.Network]; chain != nil && t.Chains[p.Network] == nil {
		return treasury.TransferOutcome{}, chain.notReady()
	}
	return t.Transfer(ctx, p)
}

// sync is one round of the treasury. It implements activities.Follow.
func (m *modeTreasury) sync(ctx context.Context) (activities.TreasuryResult, error) {
	var result activities.TreasuryResult
	got, err := m.open().Sync(ctx)
	err = errors.Join(err, m.chains.missing())
	if err == nil {
		m.synced.Store(time.Now().Unix())
	}
	for _, a := range got.Accounts {
		result.Live += a.Live
		result.Resent += a.Resent
		result.Bumped += a.Bumped
		result.Signed += a.Signed
		result.Confirmed += a.Confirmed
		result.Canceled += a.Canceled
		result.Reopened += a.Reopened
		result.Alarms = append(result.Alarms, a.Alarms...)
		result.Failed = append(result.Failed, a.Failed...)
	}
	return result, err
}
