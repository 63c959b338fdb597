package pg

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

// List builds the end of a query over the rows of one merchant and mode, newest first. It pages by
// keyset, so the last page costs no more than the first.
type List struct {
	SQL  string
	Args []any
}

// NewList begins a query over the rows of the owner in a table.
func NewList(owner checkout.Owner, table string) *List {
	return &List{
		SQL:  fmt.Sprintf("WHERE %[1]s.merchant_id = $1 AND %[1]s.mode = $2", table),
		Args: []any{owner.MerchantID, owner.Mode},
	}
}

// Where adds a condition. The placeholder ? stands for value.
func (l *List) Where(condition string, value ...any) {
	for _, v := range value {
		l.Args = append(l.Args, v)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(l.Args)), 1)
	}
	l.SQL += " AND " + condition
}

// Equal adds a condition when value is not empty.
func (l *List) Equal(column, value string) {
	if value != "" {
		l.Where(column+" = ?", value)
	}
}

// Page ends the query. It adds bounds of the id, which the index covers, before the exact times.
func (l *List) Page(prefix, table string, p Page) {
	if p.Before != "" {
		l.Where(table+".id < ?", p.Before)
	}
	if !p.Since.IsZero() {
		l.Where(table+".id >= ? AND "+table+".created_at >= ?",
			checkout.FirstID(prefix, p.Since.Add(-checkout.ClockSkew)), p.Since)
	}
	if !p.Until.IsZero() {
		l.Where(table+".id < ? AND "+table+".created_at < ?",
			checkout.FirstID(prefix, p.Until.Add(checkout.ClockSkew)), p.Until)
	}
	l.Args = append(l.Args, p.Limit)
	l.SQL += fmt.Sprintf(" ORDER BY %s.id DESC LIMIT $%d", table, len(l.Args))
}
