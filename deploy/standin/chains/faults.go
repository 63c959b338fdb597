package chains

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// Mine adds blocks.
func (a *Anvil) Mine(ctx context.Context, blocks uint64) error {
	return a.Call(ctx, nil, "anvil_mine", hexutil.Uint64(blocks))
}

// Automine sets whether the node mines each transaction at once.
func (a *Anvil) Automine(ctx context.Context, on bool) error {
	return a.Call(ctx, nil, "evm_setAutomine", on)
}

// Drop removes a transaction from the pool.
func (a *Anvil) Drop(ctx context.Context, txHash string) error {
	return a.Call(ctx, nil, "anvil_dropTransaction", txHash)
}

// Reorg replaces the last blocks by as many others without their transactions. It refuses to replace blocks of before
// the node's start: anvil then forgets the code of contracts.
func (a *Anvil) Reorg(ctx context.Context, blocks uint64) error {
	var last hexutil.Uint64
	if err := a.Call(ctx, &last, "eth_blockNumber"); err != nil {
		return err
	}
	if started := a.started.Load(); started > 0 && uint64(last) <= started+blocks {
		return fmt.Errorf("the node has %d blocks since its start, too few to replace %d", uint64(last)-started, blocks)
	}
	if err := a.Call(ctx, nil, "anvil_reorg", blocks, []any{}); err != nil {
		return err
	}
	// The node's clock went back to the time of the last block that stayed.
	return a.Call(ctx, nil, "evm_setTime", time.Now().Unix())
}

// SetBaseFee sets the base fee of the next block, in wei.
func (a *Anvil) SetBaseFee(ctx context.Context, wei uint64) error {
	return a.Call(ctx, nil, "anvil_setNextBlockBaseFeePerGas", hexutil.Uint64(wei))
}

// SetBalance sets the ether of an account, in wei.
func (a *Anvil) SetBalance(ctx context.Context, account common.Address, wei *big.Int) error {
	return a.Call(ctx, nil, "anvil_setBalance", account, (*hexutil.Big)(wei))
}

// Impersonate lets Send send from an account whose key the node does not have.
func (a *Anvil) Impersonate(ctx context.Context, account common.Address) error {
	return a.Call(ctx, nil, "anvil_impersonateAccount", account)
}
