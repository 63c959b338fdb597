package storage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
)

// TestRetention_EachQueryHasAnIndex reads the plans of the queries that look for old rows. A query without
// an index reads a whole table nevertheless.
func TestRetention_EachQueryHasAnIndex(t *testing.T) {
	f := newFixture(t)
	for rows, index := range map[storage.OldRows]string{
		storage.OldAnswers: "idempotent_request_age", storage.OldMails: "mail_age", storage.OldPictures: "picture_last_used",
		storage.OldAPIRequests: "api_request_age", storage.OldSandboxCharges: "sandbox_charge_age", storage.OldSandboxTransfers: "sandbox_transfer_age",
	} {
		plan := f.plan(t, `SET enable_seqscan = off`, storage.DeleteOldQuery(rows), 30*24*time.Hour, 9)
		require.Regexp(t, index+` .*\n\s*Index Cond: \(`, plan, "it reads no row that is not old")
	}
	sessions := strings.NewReplacer("$1", "''", "$2", "'cs_z'", "$3", "'30 days'", "$4", "1000").Replace(storage.DeleteOldSessionsQuery)
	for query, index := range map[string]string{
		sessions:                               "checkout_session_removable transaction_session payout_session_id_key event_session webhook_endpoint_session",
		storage.UselessCardsQuery + ` LIMIT 9`: "transaction_untried",
		`SELECT id FROM audit_entry WHERE id < 'aud_z' ORDER BY id LIMIT 1000`: "audit_entry_pkey",
		`SELECT FROM webhook_endpoint WHERE master_key_id = 'k'`:               "webhook_endpoint_master_key",
		`SELECT FROM webhook_endpoint WHERE previous_master_key_id = 'k'`:      "webhook_endpoint_previous_master_key",
		`SELECT FROM idempotent_request WHERE master_key_id = 'k'`:             "idempotent_request_master_key",
		`SELECT FROM checkout_session WHERE signing_endpoint_id = 'e'`:         "checkout_session_signing_endpoint",
		`SELECT FROM payout WHERE transaction_id = 't'`:                        "payout_transaction",
		`SELECT FROM transfer_payout WHERE payout_id = 'p'`:                    "transfer_payout_payout",
		`SELECT FROM charge_risk WHERE transaction_id = 't'`:                   "charge_risk_transaction",
		`SELECT FROM webhook_delivery WHERE endpoint_id = 'e'`:                 "webhook_delivery_endpoint",
		`SELECT FROM webhook_replay WHERE endpoint_id = 'e'`:                   "webhook_replay_endpoint",
	} {
		plan := f.plan(t, `SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan`, query)
		for name := range strings.FieldsSeq(index) {
			require.Contains(t, plan, name)
		}
	}
}
