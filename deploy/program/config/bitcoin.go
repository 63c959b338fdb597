package config

import (
	"errors"
	"net/url"
	"strings"
	"time"
)

// bitcoinMain is the name of Bitcoin's main network.
const bitcoinMain = "main"

// Bitcoin reports whether payouts in BTC are configured.
func (n Networks) Bitcoin() bool { return n.Chains && n.BitcoinRPCURL != "" }

// BitcoinPasswords reads the passwords of the node's user and of the signer's, "" without a signer.
func (n Networks) BitcoinPasswords() (node, signer string, err error) {
	node, err = n.password("CHECKOUT_BITCOIN_RPC_PASSWORD_FILE", n.BitcoinPasswordFile)
	if err == nil && n.BitcoinSignerURL != "" {
		signer, err = n.password("CHECKOUT_BITCOIN_SIGNER_PASSWORD_FILE", n.BitcoinSignerPasswordFile)
	}
	return node, signer, err
}

// checkBitcoin passes the faults of Bitcoin's settings to report.
func (n Networks) checkBitcoin(report func(name string, err error)) {
	if n.BitcoinRPCURL == "" {
		if n.BitcoinSignerURL != "" {
			report("CHECKOUT_BITCOIN_SIGNER_URL", errors.New("requires "+n.name("CHECKOUT_BITCOIN_RPC_URL")))
		}
		return
	}
	for name, address := range map[string]string{
		"CHECKOUT_BITCOIN_RPC_URL": n.BitcoinRPCURL, "CHECKOUT_BITCOIN_SIGNER_URL": n.BitcoinSignerURL,
	} {
		if address != "" {
			report(name, checkNodeURL(address))
		}
	}
	isMain := n.BitcoinNetwork == bitcoinMain
	switch {
	case n.Simulated && isMain:
		report("CHECKOUT_BITCOIN_NETWORK",
			errors.New("must not be main, because "+n.name("CHECKOUT_LIVE_SIMULATED")+" is set"))
	case !n.Mode.Live() && n.Chains && isMain:
		report("CHECKOUT_BITCOIN_NETWORK", errors.New("must not be main in test mode: use signet or testnet4"))
	case n.Mode.Live() && !n.Simulated && !isMain:
		report("CHECKOUT_BITCOIN_NETWORK", errors.New("must be main in live mode"))
	default:
		report("CHECKOUT_BITCOIN_NETWORK", oneOf(n.BitcoinNetwork, bitcoinMain, "test", "testnet4", "signet", "regtest"))
	}
	const mostBlocks = 1008 // for which a node estimates a fee, and more than any chain goes back
	report("CHECKOUT_BITCOIN_CONFIRMATIONS", between(n.BitcoinConfirmations, 1, mostBlocks))
	report("CHECKOUT_BITCOIN_FEE_TARGET", between(n.BitcoinFeeTarget, 1, mostBlocks))
	report("CHECKOUT_BITCOIN_MAX_FEE_RATE", between(n.BitcoinMaxFeeRate, 1, 10_000))
	// The run of a payout waits 5 minutes for its batch. Then it calls the node away and puts the payout off, which
	// makes it wait anew: a longer interval would never end.
	report("CHECKOUT_BITCOIN_BATCH_INTERVAL", between(n.BitcoinBatchInterval, 0, 4*time.Minute))
}

// checkNodeURL refuses a URL without a user, and one with a password: it would be seen wherever the URL is.
func checkNodeURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User.Username() == "" {
		return errors.New("must be http://USER@HOST:PORT")
	}
	if _, has := u.User.Password(); has {
		return errors.New("must not have the password in it: it belongs into the file")
	}
	return nil
}

// withoutUser returns a URL without its user, "" when it is none.
func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// sharesWallet reports whether both would sign with one wallet.
func (n Networks) sharesWallet(other Networks) bool {
	return n.Bitcoin() && other.Bitcoin() && n.BitcoinWallet == other.BitcoinWallet &&
		strings.EqualFold(withoutUser(n.BitcoinRPCURL), withoutUser(other.BitcoinRPCURL))
}
