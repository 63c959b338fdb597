package rate

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/shopspring/decimal"
)

// A Caller calls contracts of Ethereum, at the newest block.
type Caller interface {
	// CallContract returns the answer of the contract at the address to. An error means that the node is not reachable, or
	// that the contract refused.
	CallContract(ctx context.Context, to string, data []byte) ([]byte, error)
}

// Calls of AggregatorV3Interface.
var (
	callLatestRoundData = []byte{0xfe, 0xaf, 0x96, 0x8c}
	callDecimals        = []byte{0x31, 0x3c, 0xe5, 0x67}
)

const (
	feedDecimals = 8 // of every feed in US dollars
	word         = 32
	roundWords   = 5 // roundId, answer, startedAt, updatedAt, answeredInRound

	// restingAge is the limit of a fiat feed at weekends: it is not updated while its market rests.
	restingAge = 72 * time.Hour
)

// chainlink reads Chainlink's feeds through a node.
type chainlink struct {
	chain Caller
	feeds map[pair]string // their addresses
	sure  sync.Map        // pairs whose feed has the right decimals; they never change
}

func newChainlink(o Options) *source {
	pairs, feeds := namedBy(func(of listing) string { return o.Feeds[of.String()] })
	c := &chainlink{chain: o.Chain, feeds: feeds}
	return newSource(Chainlink, pairs, maxFeedAge, func(ctx context.Context) map[pair]reading {
		return readEach(pairs, func(p pair) (price, error) {
			if err := c.checkDecimals(ctx, p); err != nil {
				return price{}, err
			}
			data, err := c.chain.CallContract(ctx, feeds[p], callLatestRoundData)
			if err != nil {
				return price{}, away(err)
			}
			return parseRound(p, data, o.Now())
		})
	})
}

// maxFeedAge is the feed's own heartbeat and a tenth of it.
func maxFeedAge(p pair, now time.Time) time.Duration {
	if p.fiat() && weekend(now) {
		return restingAge
	}
	heartbeat := assetOf(p.base).heartbeat
	return heartbeat + heartbeat/10
}

// checkDecimals reads the decimals of each feed once.
func (c *chainlink) checkDecimals(ctx context.Context, p pair) error {
	if _, sure := c.sure.Load(p); sure {
		return nil
	}
	data, err := c.chain.CallContract(ctx, c.feeds[p], callDecimals)
	if err != nil {
		return away(err)
	}
	decimals, ok := small(data)
	if len(data) != word || !ok || decimals != feedDecimals {
		return fmt.Errorf("its contract is no feed of %d decimals", feedDecimals)
	}
	c.sure.Store(p, true)
	return nil
}

// parseRound reads the ABI encoding of latestRoundData's results at the time now.
func parseRound(p pair, data []byte, now time.Time) (price, error) {
	if len(data) != roundWords*word {
		return price{}, fmt.Errorf("its answer has %d bytes, not %d", len(data), roundWords*word)
	}
	answer, updated := data[word:2*word], data[3*word:4*word]
	if answer[0]&0x80 != 0 { // an int256
		return price{}, errors.New("the price is not above zero")
	}
	at, ok := small(updated)
	if !ok || at == 0 || at > 1<<40 {
		return price{}, errors.New("its time is not a time")
	}
	number := decimal.NewFromBigInt(new(big.Int).SetBytes(answer), -feedDecimals)
	return newPrice(p, number, number, time.Unix(at, 0), now)
}

// small reads a word as a number. It returns false when an int64 cannot hold it.
func small(data []byte) (int64, bool) {
	const head = word - 8
	if len(data) != word || !bytes.Equal(data[:head], make([]byte, head)) || data[head]&0x80 != 0 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(data[head:])), true //nolint:gosec // its top bit is zero
}
