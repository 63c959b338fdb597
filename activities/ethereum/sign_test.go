package ethereum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// planned is a plan of 10 USDC that no node was asked for.
var planned = treasury.TransferPlan{
	Slot: treasury.NumberSlot(7),
	Outputs: []treasury.TransferOutput{{
		Destination: "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", Amount: money.MustCrypto("10.000000", money.USDC)}},
	Terms: json.RawMessage(`{"gas_estimate": 50000, "gas": 60000, "tip_wei": "1", "cap_wei": "5", "budget_wei": "1000000"}`),
}

// offline returns a chain that has a signer and asks no node.
func offline(t *testing.T, s func(*Keystore) Signer) *Chain {
	secret := must.Get(crypto.GenerateKey())(t)
	key := &Keystore{crypto.PubkeyToAddress(secret.PublicKey), secret}
	return must.Get(newChain(Options{
		RPCURLs: []string{"http://127.0.0.1:1"}, ChainID: 1, Treasury: key.account.Hex(), Signer: s(key),
		Tokens:     map[money.PayoutCurrency]string{money.USDC: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"},
		MaxFeeGwei: 200, Confirmations: "finalized",
	}))(t)
}

func TestSign_GivesTheSameBytesAgain(t *testing.T) {
	t.Parallel()
	c := offline(t, func(k *Keystore) Signer { return k })
	first := must.Get(c.Sign(t.Context(), planned))(t)
	require.Equal(t, first, must.Get(c.Sign(t.Context(), planned))(t))

	tx := new(types.Transaction)
	require.NoError(t, tx.UnmarshalBinary(first.Raw))
	require.Equal(t, first.TxHash, tx.Hash().Hex())
	require.Equal(t, uint64(7), tx.Nonce())
	require.Equal(t, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", tx.To().Hex(), "the call goes to the token")
	require.Equal(t, "a9059cbb"+ // transfer(address,uint256)
		"000000000000000000000000fb6916095ca1df60bb79ce92ce3ea74c37c5d359"+
		"0000000000000000000000000000000000000000000000000000000000989680", // 10,000,000
		common.Bytes2Hex(tx.Data()))
	require.Zero(t, tx.Value().Sign())
}

// An answering signer returns what a test wants.
type answering struct {
	*Keystore

	answer func(ctx context.Context, tx *types.DynamicFeeTx) ([]byte, error)
}

func (s answering) Sign(ctx context.Context, _ common.Address, tx *types.DynamicFeeTx) ([]byte, error) {
	return s.answer(ctx, tx)
}

func TestSign_NoticesEveryFieldThatTheSignerChanges(t *testing.T) {
	t.Parallel()
	stranger := common.HexToAddress("0x00000000000000000000000000000000deadbeef")
	for field, change := range map[string]func(*types.DynamicFeeTx){
		"chain id":    func(tx *types.DynamicFeeTx) { tx.ChainID = big.NewInt(11155111) },
		"nonce":       func(tx *types.DynamicFeeTx) { tx.Nonce++ },
		"to":          func(tx *types.DynamicFeeTx) { tx.To = &stranger },
		"value":       func(tx *types.DynamicFeeTx) { tx.Value = big.NewInt(1) },
		"data":        func(tx *types.DynamicFeeTx) { tx.Data = append([]byte{1}, tx.Data[1:]...) },
		"gas":         func(tx *types.DynamicFeeTx) { tx.Gas++ },
		"tip":         func(tx *types.DynamicFeeTx) { tx.GasTipCap = big.NewInt(2) },
		"cap":         func(tx *types.DynamicFeeTx) { tx.GasFeeCap = big.NewInt(6) },
		"access list": func(tx *types.DynamicFeeTx) { tx.AccessList = types.AccessList{{Address: stranger}} },
	} {
		c := offline(t, func(k *Keystore) Signer {
			return answering{k, func(ctx context.Context, tx *types.DynamicFeeTx) ([]byte, error) {
				other := *tx
				change(&other)
				return k.Sign(ctx, k.account, &other)
			}}
		})
		require.ErrorContains(t, must.Err(c.Sign(t.Context(), planned)), "it changed the field "+field)
	}

	c := offline(t, func(k *Keystore) Signer {
		return answering{k, func(_ context.Context, tx *types.DynamicFeeTx) ([]byte, error) { // another type
			signed := must.Get(types.SignNewTx(k.key, types.LatestSignerForChainID(tx.ChainID), &types.LegacyTx{
				Nonce: tx.Nonce, GasPrice: tx.GasFeeCap, Gas: tx.Gas, To: tx.To, Value: tx.Value, Data: tx.Data}))(t)
			return signed.MarshalBinary()
		}}
	})
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), planned)), "it changed the field type")

	c = offline(t, func(k *Keystore) Signer {
		other := must.Get(crypto.GenerateKey())(t)
		return answering{k, func(ctx context.Context, tx *types.DynamicFeeTx) ([]byte, error) {
			return (&Keystore{k.account, other}).Sign(ctx, k.account, tx)
		}}
	})
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), planned)), "its signature is not the treasury's")
}

func TestSign_EndsWhenTheSignerRefuses(t *testing.T) {
	t.Parallel()
	refused := errors.New("the vault is sealed")
	for want, answer := range map[string]func(context.Context, *types.DynamicFeeTx) ([]byte, error){
		"signer: the vault is sealed":       func(context.Context, *types.DynamicFeeTx) ([]byte, error) { return nil, refused },
		"something else than a transaction": func(context.Context, *types.DynamicFeeTx) ([]byte, error) { return []byte{2, 0xc0}, nil },
	} {
		c := offline(t, func(k *Keystore) Signer { return answering{k, answer} })
		require.ErrorContains(t, must.Err(c.Sign(t.Context(), planned)), want)
	}
	c := offline(t, func(*Keystore) Signer { return nil })
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), planned)), "this process has no signer")
}

func TestSign_RefusesAPlanThatIsNotOne(t *testing.T) {
	t.Parallel()
	c := offline(t, func(k *Keystore) Signer { return k })
	for want, change := range map[string]func(*treasury.TransferPlan){
		"the destination has a checksum": func(p *treasury.TransferPlan) {
			p.Outputs[0].Destination = "0xFB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
		},
		`"0.000000" is not a positive amount`:   func(p *treasury.TransferPlan) { p.Outputs[0].Amount = money.MustCrypto("0", money.USDC) },
		`"-10.000000" is not a positive amount`: func(p *treasury.TransferPlan) { p.Outputs[0].Amount = p.Outputs[0].Amount.Neg() },
		`"" is not a positive amount`:           func(p *treasury.TransferPlan) { p.Outputs[0].Amount = money.Crypto{} },
		"no token is configured for USDT":       func(p *treasury.TransferPlan) { p.Outputs[0].Amount = money.MustCrypto("10", money.USDT) },
		"slot a:0, b:1 is no nonce":             func(p *treasury.TransferPlan) { p.Slot = treasury.Slot{"a:0", "b:1"} },
		"a transfer has one output, not 0":      func(p *treasury.TransferPlan) { p.Outputs = nil },
		"terms of the plan":                     func(p *treasury.TransferPlan) { p.Terms = json.RawMessage(`{"gas": 1}`) },
		"the network's fee is above the limit": func(p *treasury.TransferPlan) {
			p.Terms = json.RawMessage(`{"gas_estimate": 1, "gas": 1, "tip_wei": "1", "cap_wei": "200000000001", "budget_wei": "1"}`)
		},
		"not those of an Ethereum transfer": func(p *treasury.TransferPlan) {
			p.Terms = json.RawMessage(`{"gas_estimate": 1, "gas": 1, "tip_wei": "6", "cap_wei": "5", "budget_wei": "1"}`)
		},
		"terms of the plan: unexpected end of JSON i": func(p *treasury.TransferPlan) { p.Terms = nil },
	} {
		p := planned
		p.Outputs = slices.Clone(p.Outputs)
		change(&p)
		require.ErrorContains(t, must.Err(c.Sign(t.Context(), p)), want)
	}
}

// anvil serves the same call as Web3Signer.
func TestRemoteSigner_SignsOverJSONRPC(t *testing.T) {
	r := newRig(t, chains.Options{})
	account := r.anvil.Accounts[3]
	p := proxyTo(t, r.anvil.URL)
	remote := must.Get(NewRemoteSigner(p.URL))(t)
	r.fund(account)
	c := r.open(func(o *Options) { o.Treasury, o.Signer = account.Hex(), remote })
	v := r.sent(c, money.USDC, "100", 0)
	r.mine(3)
	r.sees(c, treasury.TransferStateConfirmed, v)

	p.tell(on("eth_signTransaction", edit(func(truth json.RawMessage) any {
		return map[string]any{"raw": truth, "tx": map[string]any{}} // as geth answers
	})))
	require.Equal(t, v.Raw, must.Get(c.Sign(t.Context(), v.TransferPlan))(t).Raw)

	p.tell(always(errors.New("no signature today")))
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), v.TransferPlan)), "no signature today")
	p.tell(always(""))
	require.ErrorContains(t, must.Err(c.Sign(t.Context(), v.TransferPlan)), "it returned no signed transaction")
}

func TestKeystore_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	secret := must.Get(crypto.GenerateKey())(t)
	key := &Keystore{crypto.PubkeyToAddress(secret.PublicKey), secret}
	for _, text := range []string{fmt.Sprintf("%v", key), fmt.Sprintf("%+v", key), fmt.Sprintf("%#v", key)} {
		require.Equal(t, "keystore of "+key.account.Hex(), text)
	}
}
