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

// payoutSender implements activities.PayoutSender with the treasury of a mode. The nodes of its chains may not be ready
// yet: until then their payouts are tried again.
type payoutSender struct {
	chains   Chains
	treasury treasurer.Treasury // without Chains
	synced   atomic.Int64       // when a round last succeeded, in seconds since 1970
}

// open returns the treasury with the chains that are ready.
func (s *payoutSender) open() *treasurer.Treasury {
	t := s.treasury
	t.Chains = s.chains.Ready()
	return &t
}

// Transfer implements activities.PayoutSender.
func (s *payoutSender) Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	t := s.open()
	if chain := s.chains[p.Network]; chain != nil && t.Chains[p.Network] == nil {
		return treasury.TransferOutcome{}, chain.notReady()
	}
	return t.Transfer(ctx, p)
}

// sync is one round of the treasury. It implements activities.Follow.
func (s *payoutSender) sync(ctx context.Context) (activities.TreasuryResult, error) {
	var result activities.TreasuryResult
	got, err := s.open().Sync(ctx)
	err = errors.Join(err, s.chains.missing())
	if err == nil {
		s.synced.Store(time.Now().Unix())
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
