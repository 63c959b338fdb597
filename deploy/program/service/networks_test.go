package service

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/checkout"
)

// TestWorkerNetworks_AWrongKeystoreStopsTheProcess: waiting does not help, and nothing is quoted.
func TestWorkerNetworks_AWrongKeystoreStopsTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("battery canary\n"), 0o600))
	account, err := keystore.NewKeyStore(dir, keystore.LightScryptN, keystore.LightScryptP).NewAccount("correct horse")
	require.NoError(t, err)
	n := config.Networks{
		Mode: checkout.ModeLive, Chains: true, EthereumRPCURLs: []string{"http://127.0.0.1:1"}, EthereumChainID: 31337,
		EthereumTreasury: account.Address.Hex(), EthereumKeystore: account.URL.Path, EthereumPasswordFile: password,
		MaxPayout: 100, MaxDay: 100, MaxMerchantDay: 100, MaxMerchantUnsettled: 100,
	}
	_, err = workerNetworks(n)
	require.ErrorContains(t, err, "the password is wrong")
	require.NotContains(t, err.Error(), "canary")
	n.EthereumPasswordFile = filepath.Join(dir, "none")
	_, err = workerNetworks(n)
	require.ErrorContains(t, err, "CHECKOUT_ETHEREUM_KEYSTORE_PASSWORD_FILE cannot be read")
	n.MaxMerchantUnsettled = 0
	_, err = workerNetworks(n)
	require.ErrorContains(t, err, "CHECKOUT_LIVE_MERCHANT_MAX_UNSETTLED is not set: live mode needs it")
}
