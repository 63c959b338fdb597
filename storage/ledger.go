package storage

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"strings"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Ledger accounts. Source: api/decisions/treasury.md, "ledger".
const (
	ledgerReceivable = "acquirer:receivable" // what the acquirer owes us
	ledgerBalance    = "acquirer:balance"    // what it owes us after its costs
	ledgerBank       = "bank"                // what it paid to our bank
	ledgerPayable    = "merchant:payable"    // what we owe a merchant; holder: the merchant
	ledgerFee        = "revenue:fee"
	ledgerNetworkFee = "revenue:network_fee" // what merchants pay for the network
	ledgerExchange   = "fx"                  // fiat that became crypto
	ledgerTransit    = "transit"             // signed and not final; holder: the treasury account
	ledgerWallet     = "wallet"              // on the chain; holder: the treasury account
	ledgerGas        = "expense:gas"
	ledgerAcquirer   = "expense:acquirer"  // what charges cost
	ledgerFunding    = "funding"           // top-ups of wallets
	ledgerSuspense   = "suspense"          // moved by nobody we know
	ledgerDisputed   = "acquirer:disputed" // what the acquirer holds until a dispute is decided
	ledgerReserve    = "merchant:reserve"  // what we keep of it for a time; holder: the merchant
	ledgerContested  = "merchant:disputed" // what the merchant gets back if it wins a dispute; holder: the merchant
	ledgerLoss       = "expense:loss"      // went back to customers, and no merchant bears it
	ledgerSandbox    = "sandbox"           // the sandbox's card network and chain
)

// Kinds of ledger entries.
const (
	entryCharge    = "charge" // subject: the transaction, as of the next one
	entryCost      = "charge_cost"
	entryRefund    = "refund"             // subject: our refund; an even generation takes the one before back
	entryReserve   = "reserve"            // subject: the transaction, as of the next one
	entryRelease   = "release"            //
	entryPayout    = "payout"             // subject: the payout, whose chain is the sandbox
	entrySigned    = "transfer_signed"    // subject: the transfer, as of the next seven
	entryFinal     = "transfer_confirmed" //
	entryReverted  = "transfer_reverted"
	entryDead      = "transfer_dead"
	entryCanceled  = "transfer_canceled"
	entryGas       = "transfer_gas" // of a transfer that paid nothing
	entryReopened  = "transfer_reopened"
	entryRecovered = "transfer_recovered" // it explains an outflow that was booked as one of nobody
	entryInflow    = "inflow"             // subject: the treasury account, as of the next two
	entryOutflow   = "outflow"            // that no transfer explains
	entryShortage  = "shortage"           // that a person accepted
	entryRisk      = "risk"               // subject: the charge's risk, as of the next one
	entryFee       = "dispute_fee"        // of the card network
	entryConvert   = "conversion"         // subject: the payout that pays a debt in another currency
	entryMovement  = "movement"           // subject: the card network's movement
)

// entry is a ledger entry to book. It is booked in the transaction of the decision that it records.
type entry struct {
	Mode       checkout.Mode
	Kind       string
	Subject    string
	Generation int
	MerchantID string // "" when it concerns no merchant
	Postings   []posting
}

// posting is one line of an entry. A debit is positive, a credit is negative.
type posting struct {
	Account string
	Holder  string
	Asset   string   // ISO 4217 code or payout currency
	Amount  *big.Int // smallest unit of the asset; a posting of 0 is left out
}

func inCrypto(account, holder string, amount money.Crypto) posting {
	return posting{account, holder, string(amount.Currency()), amount.Units()}
}

// columns are the entry's postings, as arrays of their columns.
func (e entry) columns() (accounts, holders, assets, amounts []string) {
	for _, p := range e.Postings {
		if p.Amount.Sign() != 0 {
			accounts, holders = append(accounts, p.Account), append(holders, p.Holder)
			assets, amounts = append(assets, p.Asset), append(amounts, p.Amount.String())
		}
	}
	return accounts, holders, assets, amounts
}

// book stores an entry. A unique constraint refuses a second entry of the same kind, subject and
// generation, and the transaction cannot commit when a sum is not 0.
func (e entry) book(ctx context.Context, tx pgx.Tx) error {
	accounts, holders, assets, amounts := e.columns()
	_, err := tx.Exec(ctx, `
		WITH entry AS (
			INSERT INTO ledger_entry (mode, kind, subject, generation, merchant_id)
			VALUES ($1, $2, $3, $4, nullif($5, '')) RETURNING id)
		INSERT INTO ledger_posting (entry_id, mode, account, holder, asset, amount)
		SELECT entry.id, $1, p.account, p.holder, p.asset, sum(p.amount::numeric)
		FROM entry, unnest($6::text[], $7::text[], $8::text[], $9::text[]) AS p (account, holder, asset, amount)
		GROUP BY 1, 3, 4, 5 HAVING sum(p.amount::numeric) <> 0`,
		e.Mode, e.Kind, e.Subject, e.Generation, e.MerchantID, accounts, holders, assets, amounts)
	if err != nil {
		return fmt.Errorf("book %s of %s: %w", e.Kind, e.Subject, err)
	}
	return nil
}

// with books the entry in the statement of a decision about its subject, if a condition holds. A statement may book one
// entry of each kind. No two postings have one account.
func (e entry) with(d *decisionSQL, condition string) {
	accounts, holders, assets, amounts := e.columns()
	d.sql += strings.ReplaceAll(`, entry_KIND AS (
			INSERT INTO ledger_entry (mode, kind, subject, generation, merchant_id)
			SELECT @mode, 'KIND', @subject, @generation_KIND::integer, @merchant FROM decided WHERE `+condition+`
			RETURNING id
		), posting_KIND AS (
			INSERT INTO ledger_posting (entry_id, mode, account, holder, asset, amount)
			SELECT e.id, @mode, p.account, p.holder, p.asset, p.amount::numeric
			FROM entry_KIND e, unnest(@accounts_KIND::text[], @holders_KIND::text[], @assets_KIND::text[], @amounts_KIND::text[])
				AS p (account, holder, asset, amount)
		)`, "KIND", e.Kind)
	maps.Copy(d.args, pgx.NamedArgs{
		"generation_" + e.Kind: e.Generation, "accounts_" + e.Kind: accounts, "holders_" + e.Kind: holders,
		"assets_" + e.Kind: assets, "amounts_" + e.Kind: amounts,
	})
}

// reverse books the opposite of an earlier entry, under another kind; with generation 0, of all of them together.
func reverse(ctx context.Context, tx pgx.Tx, subject, kind string, generation int, as string, asGeneration int) error {
	tag, err := tx.Exec(ctx, `
		WITH earlier AS (
			SELECT id, mode, merchant_id FROM ledger_entry
			WHERE subject = $1 AND kind = $2 AND $3 IN (generation, 0)
		), entry AS (
			INSERT INTO ledger_entry (mode, kind, subject, generation, merchant_id)
			SELECT mode, $4, $1, $5, CASE WHEN count(DISTINCT merchant_id) = 1 THEN min(merchant_id) END
			FROM earlier GROUP BY mode RETURNING id)
		INSERT INTO ledger_posting (entry_id, mode, account, holder, asset, amount)
		SELECT entry.id, p.mode, p.account, p.holder, p.asset, -sum(p.amount)
		FROM entry, earlier JOIN ledger_posting p ON p.entry_id = earlier.id
		GROUP BY 1, 2, 3, 4, 5 HAVING sum(p.amount) <> 0`, subject, kind, generation, as, asGeneration)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("there is no entry %s of generation %d", kind, generation)
	}
	if err != nil {
		return fmt.Errorf("reverse %s of %s: %w", kind, subject, err)
	}
	return nil
}

// chargeEntry is the entry of a succeeded charge: the acquirer owes us the amount, and we owe the merchant the net.
func (p *payment) chargeEntry() entry {
	asset := string(p.Currency)
	return entry{
		Mode: p.Mode, Kind: entryCharge, Subject: p.ID, Generation: 1, MerchantID: p.MerchantID,
		Postings: []posting{
			{chargedTo(p.real()), "", asset, big.NewInt(int64(p.Amount))},
			{ledgerPayable, p.MerchantID, asset, big.NewInt(-int64(p.Net))},
			{ledgerFee, "", asset, big.NewInt(-int64(p.Fee))},
		},
	}
}

// chargedTo is the account that a charge is debited to, and from which a refund comes.
func chargedTo(real bool) string {
	if real {
		return ledgerReceivable
	}
	return ledgerSandbox
}

// LedgerBalance is the sum of an account in one asset.
type LedgerBalance struct {
	Account string
	Asset   string // ISO 4217 code or payout currency
	Amount  string // whole number of the asset's smallest unit; negative is a credit
}

// LedgerBalances adds up the ledger of one mode, ordered by account and asset. An account whose
// postings add up to 0 is listed with "0". Only operators may call it.
func (s *Books) LedgerBalances(ctx context.Context, mode checkout.Mode) ([]LedgerBalance, error) {
	got, err := pg.Collect[LedgerBalance](ctx, s.pool, `
		SELECT account, asset, sum(amount)::text AS amount FROM ledger_posting
		WHERE mode = $1 GROUP BY 1, 2 ORDER BY 1, 2`, mode)
	return got, pg.Wrap("ledger balances", err)
}

// walletBalances returns the balances of a treasury account by the ledger.
func walletBalances(ctx context.Context, tx pgx.Tx, mode checkout.Mode, accountID string) (money.Purse, error) {
	rows, err := pg.Collect[wholeUnits](ctx, tx, `
		SELECT asset, sum(amount)::text AS units FROM ledger_posting
		WHERE mode = $1 AND account = $2 AND holder = $3 GROUP BY 1`, mode, ledgerWallet, accountID)
	got := money.Purse{}
	for _, row := range rows {
		currency := money.PayoutCurrency(row.Asset)
		got[currency] = money.NewCrypto(&row.Units.Int, currency)
	}
	return got, err
}

// wholeUnits is a row with a sum in the smallest unit of its asset.
type wholeUnits struct {
	Asset string
	Units whole
}

// whole is a whole number in a column.
type whole struct{ big.Int }

// Scan reads the number from text.
func (n *whole) Scan(column any) error {
	if text, _ := column.(string); text == "" || n.UnmarshalText([]byte(text)) != nil {
		return fmt.Errorf("%v is not a whole number", column)
	}
	return nil
}
