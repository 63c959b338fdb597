package storage

import (
	"fmt"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Page selects a part of a list: at most Limit entries, older than Before, created in [Since,
// Until). A zero field does not limit.
type Page struct {
	Before string // id of the last entry of the previous page
	Since  time.Time
	Until  time.Time
	Limit  int
}

// clockSkew is the largest difference between the time in an id and created_at. This process makes
// the id; PostgreSQL sets created_at.
const clockSkew = time.Hour

// list builds the end of a query over the rows of one merchant and mode, newest first. It pages by
// keyset, so the last page costs no more than the first.
type list struct {
	sql  string
	args []any
}

func newList(owner checkout.Owner, table string) *list {
	return &list{
		sql:  fmt.Sprintf("WHERE %[1]s.merchant_id = $1 AND %[1]s.mode = $2", table),
		args: []any{owner.MerchantID, owner.Mode},
	}
}

// where adds a condition. The placeholder ? stands for value.
func (l *list) where(condition string, value ...any) {
	for _, v := range value {
		l.args = append(l.args, v)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(l.args)), 1)
	}
	l.sql += " AND " + condition
}

// equal adds a condition when value is not empty.
func (l *list) equal(column, value string) {
	if value != "" {
		l.where(column+" = ?", value)
	}
}

// page ends the query. It adds bounds of the id, which the index covers, before the exact times.
func (l *list) page(prefix, table string, p Page) {
	if p.Before != "" {
		l.where(table+".id < ?", p.Before)
	}
	if !p.Since.IsZero() {
		l.where(table+".id >= ? AND "+table+".created_at >= ?",
			checkout.FirstID(prefix, p.Since.Add(-clockSkew)), p.Since)
	}
	if !p.Until.IsZero() {
		l.where(table+".id < ? AND "+table+".created_at < ?",
			checkout.FirstID(prefix, p.Until.Add(clockSkew)), p.Until)
	}
	l.args = append(l.args, p.Limit)
	l.sql += fmt.Sprintf(" ORDER BY %s.id DESC LIMIT $%d", table, len(l.args))
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
