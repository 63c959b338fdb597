package app

import (
	"fmt"
	"strings"
)

// table is a list of a report: objects in the output of --json, rows for people.
type table struct {
	columns []string // "key:HEADING", or "key" for --json only
	rows    [][]any
}

func newTable(columns ...string) *table { return &table{columns: columns} }

// add adds a row with a cell for each column. A number stays one in the output of --json; everything else is its text.
func (t *table) add(cells ...any) {
	for i, cell := range cells {
		if _, number := cell.(int); !number {
			cells[i] = fmt.Sprint(cell)
		}
	}
	t.rows = append(t.rows, cells)
}

// objects is the table in the output of --json. Without rows it is [] and not null.
func (t *table) objects() []map[string]any {
	objects := []map[string]any{}
	for _, row := range t.rows {
		object := map[string]any{}
		for i, column := range t.columns {
			key, _, _ := strings.Cut(column, ":")
			object[key] = row[i]
		}
		objects = append(objects, object)
	}
	return objects
}

// lines is the table for people, the headings first.
func (t *table) lines() [][]string {
	lines := make([][]string, 1+len(t.rows))
	for i, column := range t.columns {
		_, heading, shown := strings.Cut(column, ":")
		if !shown {
			continue
		}
		lines[0] = append(lines[0], heading)
		for n, row := range t.rows {
			lines[n+1] = append(lines[n+1], fmt.Sprint(row[i]))
		}
	}
	return lines
}

// printTables prints tables with an empty line before each. A table without rows says so.
func (p printer) printTables(tables ...*table) error {
	for _, table := range tables {
		lines := table.lines()
		if len(table.rows) == 0 {
			lines = [][]string{{lines[0][0] + ": none"}}
		}
		fmt.Fprintln(p.out) // an error comes again with the table
		if err := p.printTable(lines...); err != nil {
			return err
		}
	}
	return nil
}
