package dashboard

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// exportPage is how many entries a statement of the export reads.
const exportPage = 500

// exportAudit serves GET /{mode}/audit.csv: the entries of the page of the audit log, all of them, newest
// first. The download of a log that could not be read to its end is cut, so that browsers report it.
func (s *server) exportAudit(w http.ResponseWriter, r *http.Request) error {
	v, err := s.visitor(r)
	if errors.Is(err, checkout.ErrNotFound) {
		askToSignIn(w, r)
		return nil
	}
	if err != nil {
		return err
	}
	mine, ok := s.streams.TryEnter(v.Member.ID)
	if !ok {
		return fmt.Errorf("%w: this person has too many streams open", failure.RateLimited)
	}
	defer mine.Leave(false)

	page := storage.Page{Limit: exportPage}
	entries, err := s.Store.AuditEntries(r.Context(), v.Owner(), page)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	day := time.Now().UTC().Format("2006-01-02")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="audit-%s-%s.csv"`, v.Mode, day))
	control := http.NewResponseController(w)
	out := csv.NewWriter(w)
	_ = out.Write([]string{"id", "at", "mode", "who", "from", "action", "subject", "detail"}) // Flush reports it
	for len(entries) > 0 {
		// An error means that there is no deadline.
		_ = control.SetWriteDeadline(time.Now().Add(streamPatience))
		for _, e := range entries {
			_ = out.Write(exportRow(e)) // Flush reports it
		}
		out.Flush()
		if out.Error() != nil {
			return nil // the visitor has gone
		}
		if len(entries) < exportPage {
			break
		}
		page.Before = entries[len(entries)-1].ID
		if entries, err = s.Store.AuditEntries(r.Context(), v.Owner(), page); err != nil {
			s.Log.ErrorContext(r.Context(), "audit export", "error", err)
			panic(http.ErrAbortHandler)
		}
	}
	out.Flush()
	return nil
}

func exportRow(e checkout.AuditEntry) []string {
	mode := "both"
	if e.Mode != nil {
		mode = string(*e.Mode)
	}
	row := []string{e.ID, checkout.FormatTime(e.CreatedAt), mode, e.Actor, e.Address, e.Action, e.Subject, e.Detail}
	for i, cell := range row {
		row[i] = asText(cell)
	}
	return row
}

// asText makes a program for tables show a cell as text. People choose addresses and names, and a cell that
// begins with such a character would be a formula. Source: OWASP, "CSV Injection".
func asText(cell string) string {
	if strings.IndexAny(strings.TrimLeft(cell, " "), "=+-@\t\r\n＝＋－＠|%") == 0 {
		return "'" + cell
	}
	return cell
}
