package dashboard

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/api/web"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// downloadVisitor returns the visitor of a download, or the error of login.Server.Visitor.
func (s *server) downloadVisitor(r *http.Request) (page.Visit, error) {
	turn, err := s.entrance.Enter(r)
	if err != nil {
		return page.Visit{}, err
	}
	// A browser may read slowly, and other people share its address. download bounds those of a person.
	defer turn.Leave(false)
	return s.login.Visitor(r)
}

// exportPage is how many rows a statement of an export reads. An export is many short statements and not
// one long transaction: a long one would hold back the feed of events and the removal of old rows.
const exportPage = 500

// maxDownloads bounds the downloads of one person at once in this process.
const maxDownloads = 5

// downloadPatience is the time for the browser to accept a write.
const downloadPatience = 10 * time.Second

// download serves a file that takes longer than a page. Like the pages, members of every role may have it.
func (s *server) download(h func(page.Visit, http.ResponseWriter) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := s.downloadVisitor(r)
		if errors.Is(err, login.ErrSignIn) {
			login.AskToSignIn(w, r)
			return nil
		}
		if err != nil {
			return err
		}
		mine, ok := s.downloads.TryEnter(v.Member.ID)
		if !ok {
			return fmt.Errorf("%w: this person has too many downloads open", failure.RateLimited)
		}
		defer mine.Leave(false)
		return h(v, w)
	}
}

// export is a list as a CSV file.
type export[T identified] struct {
	selection[T]
	name string // of the list, for the name of the file
	head []string
	row  func(T) []string
}

// write writes the whole list, page by page. After an error the download is cut, so that browsers report
// it.
func (e export[T]) write(v page.Visit, w http.ResponseWriter) error {
	if e.fault != "" {
		return failure.Invalid
	}
	part := e.page
	part.Limit = exportPage
	rows, err := e.read(part)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%s.csv", e.name, v.Mode, time.Now().UTC().Format(time.DateOnly))
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	control := http.NewResponseController(w)
	// The server's deadlines are for short requests; an error means that there is none.
	_ = control.SetReadDeadline(time.Time{})
	out := csv.NewWriter(w)
	_ = out.Write(e.head) // Error reports it
	for {
		_ = control.SetWriteDeadline(time.Now().Add(downloadPatience))
		for _, row := range rows {
			cells := e.row(row)
			for i, cell := range cells {
				cells[i] = asText(page.Visible(cell))
			}
			_ = out.Write(cells) // Error reports it
		}
		out.Flush()
		if out.Error() != nil {
			return nil //nolint:nilerr // the visitor has gone
		}
		if len(rows) < exportPage {
			return nil
		}
		part.Before = rows[len(rows)-1].PublicID()
		if rows, err = e.read(part); err != nil {
			return err
		}
	}
}

// negative is an amount below zero.
var negative = regexp.MustCompile(`^-[0-9]+\.[0-9]+$`)

// asText makes a program for tables show a cell as text. People choose addresses and names, and a cell that
// begins with such a character would be a formula. Source: OWASP, "CSV Injection".
func asText(cell string) string {
	if !negative.MatchString(cell) && strings.IndexAny(strings.TrimLeft(cell, " "), "=+-@\t\r\n＝＋－＠|%") == 0 {
		return "'" + cell
	}
	return cell
}

// exportSessions serves GET …/sessions.csv with the filters of the list.
func (s *server) exportSessions(v page.Visit, w http.ResponseWriter) error {
	return export[checkout.Session]{
		selection: s.sessions(v), name: "sessions",
		head: []string{
			"id", "status", "created_at", "ended_at", "amount", "currency", "fee", "net", "payout_currency", "customer_email",
			"order_id", "transaction_id", "failure", "card_brand", "card_last4", "payout_id", "payout_status", "payout_amount",
			"metadata",
		},
		row: sessionCells,
	}.write(v, w)
}

func sessionCells(s checkout.Session) []string {
	var t checkout.Transaction
	if last := s.Transaction(); last != nil {
		t = *last
	}
	var p checkout.Payout
	if s.Payout != nil {
		p = *s.Payout
	}
	fee, net := "", ""
	if t.Status == checkout.TransactionSucceeded {
		fee, net = t.Fee.String(), t.Net.String()
	}
	return []string{
		s.ID, string(s.Status), checkout.FormatTime(s.CreatedAt), optionalTime(s.EndedAt), s.Amount.String(),
		string(s.Currency), fee, net, string(s.PayoutCurrency), customerOf(s), orderID(s.Metadata), t.ID,
		string(t.Failure), t.PaymentMethod.Brand, t.PaymentMethod.Last4, p.ID, string(p.Status), p.Amount.String(),
		string(s.Metadata),
	}
}

// exportPayouts serves GET …/payouts.csv with the filters of the list.
func (s *server) exportPayouts(v page.Visit, w http.ResponseWriter) error {
	l, _ := s.payouts(v)
	return export[checkout.Payout]{
		selection: l, name: "payouts",
		head: []string{
			"id", "status", "created_at", "sent_at", "confirmed_at", "failed_at", "amount", "currency", "network_fee", "network",
			"destination", "tx_hash", "source_amount", "source_currency", "exchange_rate", "failure", "session_id",
			"transaction_id", "order_id", "deducted",
		},
		row: payoutCells,
	}.write(v, w)
}

func payoutCells(p checkout.Payout) []string {
	return []string{
		p.ID, string(p.Status), checkout.FormatTime(p.CreatedAt), optionalTime(p.SentAt), optionalTime(p.ConfirmedAt),
		optionalTime(p.FailedAt), p.Amount.String(), string(p.Currency), p.Fee.String(), p.Network, p.Destination, p.TxHash,
		p.SourceAmount.String(), string(p.SourceCurrency), p.ExchangeRate.String(), string(p.Failure), p.SessionID,
		p.TransactionID, orderID(p.Metadata), p.Deducted.String(),
	}
}

// exportRefunds serves GET …/refunds.csv with the filters of the list.
func (s *server) exportRefunds(v page.Visit, w http.ResponseWriter) error {
	return export[checkout.Refund]{
		selection: s.refunds(v), name: "refunds",
		head: []string{
			"id", "status", "created_at", "ended_at", "amount", "currency", "fee_returned", "reason", "failure", "session_id",
			"transaction_id", "order_id",
		},
		row: func(r checkout.Refund) []string {
			return []string{
				r.ID, string(r.Status), checkout.FormatTime(r.CreatedAt), optionalTime(r.EndedAt), r.Amount.String(),
				string(r.Currency), r.FeeReturned.String(), string(r.Reason), string(r.Failure()), r.SessionID, r.TransactionID,
				orderID(r.Metadata),
			}
		},
	}.write(v, w)
}

// exportDisputes serves GET …/disputes.csv with the filters of the list.
func (s *server) exportDisputes(v page.Visit, w http.ResponseWriter) error {
	return export[checkout.Dispute]{
		selection: s.disputes(v), name: "disputes",
		head: []string{
			"id", "status", "created_at", "respond_by", "closed_at", "amount", "currency", "fee", "reason", "session_id",
			"transaction_id", "order_id",
		},
		row: func(d checkout.Dispute) []string {
			return []string{
				d.ID, string(d.Status), checkout.FormatTime(d.CreatedAt), optionalTime(d.RespondBy), optionalTime(d.ClosedAt),
				d.Amount.String(), string(d.Currency), d.Fee.String(), d.Reason, d.SessionID, d.TransactionID,
				orderID(d.Metadata),
			}
		},
	}.write(v, w)
}

// exportBalance serves GET …/balance.csv with the filters of the list.
func (s *server) exportBalance(v page.Visit, w http.ResponseWriter) error {
	return export[checkout.BalanceTransaction]{
		selection: s.balanceTransactions(v), name: "balance",
		head: []string{"id", "type", "created_at", "amount", "fee", "net", "currency", "source"},
		row: func(t checkout.BalanceTransaction) []string {
			return []string{
				t.ID, string(t.Type), checkout.FormatTime(t.CreatedAt), t.Amount.String(), t.Fee.String(), t.Net.String(),
				string(t.Currency), t.Source,
			}
		},
	}.write(v, w)
}

// exportDeliveries serves GET …/deliveries.csv with the filters of the log.
func (s *server) exportDeliveries(v page.Visit, w http.ResponseWriter) error {
	return export[deliveryRow]{
		selection: s.deliveries(v), name: "deliveries",
		head: []string{
			"id", "state", "event_id", "event_type", "session_id", "webhook_id", "url", "created_at", "finished_at", "run",
			"last_attempt", "last_attempt_at", "last_result", "next_attempt_at",
		},
		row: deliveryCells,
	}.write(v, w)
}

func deliveryCells(r deliveryRow) []string {
	session, number, at, result := "", "", "", ""
	if r.SessionID != nil {
		session = *r.SessionID
	}
	if r.Last.Number > 0 {
		number, at, result = fmt.Sprint(r.Last.Number), checkout.FormatTime(r.Last.StartedAt), r.Last.Outcome()
	}
	return []string{
		r.ID, r.State, r.EventID, string(r.EventType), session, r.EndpointID, r.URL, checkout.FormatTime(r.CreatedAt),
		optionalTime(r.FinishedAt), fmt.Sprint(r.Run), number, at, result, optionalTime(r.NextAttemptAt),
	}
}

// exportAudit serves GET …/audit.csv: the entries of the page of the audit log, all of them.
func (s *server) exportAudit(v page.Visit, w http.ResponseWriter) error {
	return export[merchant.AuditEntry]{
		selection: s.auditEntries(v), name: "audit",
		head: []string{"id", "at", "mode", "who", "from", "action", "subject", "detail"},
		row:  auditCells,
	}.write(v, w)
}

func auditCells(e merchant.AuditEntry) []string {
	mode := "both"
	if e.Mode != nil {
		mode = string(*e.Mode)
	}
	return []string{e.ID, checkout.FormatTime(e.CreatedAt), mode, e.Actor, e.Address, e.Action, e.Subject, e.Detail}
}

// optionalTime returns "" for nil.
func optionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return checkout.FormatTime(*t)
}
