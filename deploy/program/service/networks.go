package service

import (
	"context"

	"example.com/checkout/activities/bitcoin"
	"example.com/checkout/activities/ethereum"
	"example.com/checkout/activities/rate"
	"example.com/checkout/activities/stripe"
	"example.com/checkout/api"
	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/money"
)

// workerNetworks returns the networks of a mode for a worker. It returns an error for a missing or wrong setting.
func workerNetworks(n config.Networks) (worker.Networks, error) {
	networks := worker.Networks{Mode: n.Mode}
	if err := n.ForWorker(); err != nil {
		return networks, err
	}
	if n.Cards {
		networks.Cards = &stripe.Options{
			SecretKey: n.StripeSecretKey, Mode: n.Mode, APIURL: n.StripeAPIURL, Simulated: n.Simulated,
		}
	}
	if !n.Chains {
		return networks, nil
	}
	var err error
	networks.Payouts, err = payoutSettings(n, true)
	return networks, err
}

// payoutSettings returns the settings of payouts. Chains of a process that signs nothing have no keys.
func payoutSettings(n config.Networks, signs bool) (*worker.PayoutSettings, error) {
	s := &worker.PayoutSettings{
		Ethereum: ethereum.Options{
			RPCURLs: n.EthereumRPCURLs, ChainID: n.EthereumChainID, Treasury: n.EthereumTreasury, Tokens: n.Tokens(),
			MaxFeeGwei: n.EthereumMaxFeeGwei, Confirmations: n.EthereumConfirmations, SanctionsOracle: n.SanctionsOracle,
		},
		Rates: rateOptions(n), Limits: n.Limits(), Patience: n.PayoutPatience, Delay: n.PayoutDelay, Sanctioned: n.Sanctioned,
	}
	if signs {
		var err error
		if s.Ethereum.Signer, err = openSigner(n); err != nil {
			return nil, err
		}
	}
	if n.Bitcoin() {
		password, signerPassword, err := n.BitcoinPasswords()
		if err != nil {
			return nil, err
		}
		s.Bitcoin = &bitcoin.Options{
			Network: n.BitcoinNetwork, RPCURL: n.BitcoinRPCURL, RPCPassword: password, Wallet: n.BitcoinWallet, Signs: signs,
			SignerURL: n.BitcoinSignerURL, SignerPassword: signerPassword, Confirmations: n.BitcoinConfirmations,
			FeeTarget: n.BitcoinFeeTarget, MaxFeeRate: n.BitcoinMaxFeeRate, BatchInterval: n.BitcoinBatchInterval,
		}
	}
	return s, nil
}

// openSigner opens the keystore or the remote signer that has the treasury's key on Ethereum.
func openSigner(n config.Networks) (ethereum.Signer, error) {
	if n.EthereumKeystore == "" {
		return ethereum.NewRemoteSigner(n.EthereumSignerURL)
	}
	password, err := n.KeystorePassword()
	if err != nil {
		return nil, err
	}
	return ethereum.OpenKeystore(n.EthereumKeystore, password)
}

func rateOptions(n config.Networks) rate.Options {
	o := rate.Defaults()
	o.Mode, o.Sources, o.MaxAge, o.Lock = n.Mode, n.RateSources, n.RateMaxAge, n.PayoutPatience
	if n.Simulated {
		o.KrakenURL, o.CoinbaseURL = n.KrakenURL, n.CoinbaseURL
	}
	if n.Feeds != nil {
		o.Feeds = n.Feeds
	}
	o.MaxDeviation, o.SpreadStable, o.Spread = n.MaxDeviation.Decimal, n.SpreadStable.Decimal, n.Spread.Decimal
	return o
}

// openNetworksAPI gives the REST API and the page what they need of the networks of a mode. Nothing of it
// moves money. run keeps it up to date.
func openNetworksAPI(
	n config.Networks, rest *api.Config, page *hosted.Config,
) (run func(ctx context.Context), err error) {
	if err := n.ForAPI(); err != nil {
		return nil, err
	}
	if n.Cards {
		page.Acquirers[n.Mode], err = hosted.NewAcquirer(n.Mode, n.StripePublishableKey, n.StripeScriptURL, n.Simulated)
		if err != nil {
			return nil, err
		}
	}
	if !n.Chains {
		return func(context.Context) {}, nil
	}
	n.BitcoinWallet = "" // prices need no call of a wallet
	settings, err := payoutSettings(n, false)
	if err != nil {
		return nil, err
	}
	chains := settings.Chains()
	rates, err := settings.NewRates(chains)
	if err != nil {
		return nil, err
	}
	bounds := worker.NewPayoutBounds(n.Limits(), rates, chains)
	page.Chains[n.Mode] = map[money.PayoutCurrency]string{}
	for _, c := range bounds.Currencies {
		page.Chains[n.Mode][c] = chains[c.Network()].ID
	}
	rest.Payouts[n.Mode] = &api.Payouts{
		Currencies: bounds.Currencies, NoQuoteSince: rates.NoQuoteSince, Bounds: bounds.Find,
	}
	return func(ctx context.Context) {
		chains.OpenSoon(ctx, n.Mode)
		go bounds.Run(ctx)
		rates.Run(ctx)
	}, nil
}
