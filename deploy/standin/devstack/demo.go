package devstack

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"example.com/checkout/api/passhash"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// Demo is the merchant of a stack. It is stored in a file of mode 0600, because the service itself
// does not store keys and secrets readably.
type Demo struct {
	MasterKeys string `json:"master_keys"`
	MerchantID string `json:"merchant_id"`
	APIKey     string `json:"api_key"`
	EndpointID string `json:"endpoint_id"`
	Secret     string `json:"secret"`   // signs the receiver's deliveries
	Password   string `json:"password"` // DemoOwner's password for the dashboard
	LiveKey    string `json:"live_key"` // "" until the first start with Options.LiveDouble
}

// DemoOwner is the e-mail address of the demo merchant's owner, for the dashboard.
const DemoOwner = "owner@demo.example"

// loadDemo reads the demo merchant. On the first start it creates the merchant, with a registration for receiverURL.
func loadDemo(ctx context.Context, path, databaseURL, receiverURL string) (Demo, error) {
	d, err := readDemo(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}

	d = Demo{MasterKeys: pg.NewMasterKey("local"), Secret: webhook.NewSecret(), Password: rand.Text()}
	store, err := d.OpenStore(ctx, databaseURL, 0)
	if errors.Is(err, pg.ErrWrongMasterKey) {
		return Demo{}, fmt.Errorf("the database was set up by a stack whose %s is gone; use another database: %w", path, err)
	}
	if err != nil {
		return Demo{}, err
	}
	defer store.Close()
	if err := d.create(ctx, store, receiverURL); err != nil {
		return Demo{}, err
	}
	return d, writeJSON(path, d)
}

func readDemo(path string) (d Demo, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Demo{}, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return Demo{}, fmt.Errorf("%s is damaged; start with -fresh: %w", path, err)
	}
	return d, nil
}

func (d *Demo) create(ctx context.Context, store *storage.Store, receiverURL string) error {
	var addresses []merchant.PayoutAddress
	for _, c := range money.PayoutCurrencies {
		addresses = append(addresses, merchant.PayoutAddress{Currency: c, Network: c.Network(), Address: "sandbox:demo-shop"})
	}
	owner, key, err := AddMerchant(ctx, store, "Demo Shop", checkout.ModeTest, addresses...)
	if err != nil {
		return err
	}
	d.MerchantID, d.APIKey = owner.MerchantID, key
	if err := createOwner(ctx, store, *d); err != nil {
		return err
	}
	endpoint, err := AddEndpoint(ctx, store, owner, receiverURL, d.Secret)
	d.EndpointID = endpoint.ID
	return err
}

// goLive gives the demo merchant live payout addresses on the simulated chain and a live key, at the
// first start with a simulation.
func (s *Stack) goLive(ctx context.Context) error {
	if s.Live == nil || s.Demo.LiveKey != "" {
		return nil
	}
	store, err := s.OpenStore(ctx, 0)
	if err != nil {
		return err
	}
	defer store.Close()

	var addresses []merchant.PayoutAddress
	for _, c := range money.PayoutCurrencies {
		address, err := s.Live.payoutAddress(ctx, c)
		if err != nil {
			return err
		}
		if address != "" {
			addresses = append(addresses, merchant.PayoutAddress{Currency: c, Network: c.Network(), Address: address})
		}
	}
	owner := checkout.Owner{MerchantID: s.Demo.MerchantID, Mode: checkout.ModeLive}
	shop, err := store.Merchants.Merchant(ctx, s.Demo.MerchantID)
	if err != nil {
		return err
	}
	if err := store.Merchants.CreateMerchant(ctx, shop, checkout.ModeLive, addresses); err != nil {
		return err
	}
	d := s.Demo
	d.LiveKey = merchant.NewAPIKey(checkout.ModeLive)
	key := merchant.APIKey{Ref: owner.Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "local"}
	if err := store.Merchants.CreateAPIKey(ctx, key, d.LiveKey); err != nil {
		return err
	}
	s.Demo = d
	return writeJSON(filepath.Join(s.options.Dir, demoFile), d)
}

// demoFile has the demo merchant.
const demoFile = "demo.json"

func createOwner(ctx context.Context, store *storage.Store, d Demo) error {
	owner := merchant.Member{
		ID: checkout.NewID(checkout.PrefixMember), MerchantID: d.MerchantID, Email: DemoOwner, Role: merchant.RoleOwner,
	}
	token, err := store.People.Invite(ctx, owner, "local stack")
	if err != nil {
		return err
	}
	hash, err := passhash.Hash(ctx, d.Password, "")
	if err != nil {
		return err
	}
	_, err = store.People.AcceptInvitation(ctx, merchant.HashToken(token), hash, "")
	return err
}
