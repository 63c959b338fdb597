package app

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// A result has the parts that a command prints, in order: lines (string), *table, note, secret and data. With --json
// the first *table or data is printed alone.
type result []any

// A note is a line for people, apart from the output.
type note string

// A secret is a line that is shown once. lost is the advice of the error when it could not be shown.
type secret struct{ line, lost string }

// data is printed with --json only.
type data struct{ value any }

// resultLine is the result of a command that did something, unless it failed with err.
func resultLine(err error, format string, args ...any) (result, error) {
	return resultOf(err, fmt.Sprintf(format, args...))
}

// resultOf is a result with these parts, unless the command failed with err.
func resultOf(err error, parts ...any) (result, error) {
	if err != nil {
		return nil, err
	}
	return parts, nil
}

// print writes a result, for people or for a script.
func (c *call) print(r result) error {
	asJSON := c.isSet("json")
	for _, part := range r {
		var err error
		switch part := part.(type) {
		case data:
			if asJSON {
				return printJSON(c.out, part.value)
			}
		case *table:
			if asJSON {
				return printJSON(c.out, part.objects())
			}
			err = part.print(c.out)
		case note:
			fmt.Fprintln(c.notes, part)
		case secret:
			if _, err = fmt.Fprintln(c.out, part.line); err != nil {
				err = fmt.Errorf("%s: %w", part.lost, err)
			}
		case string:
			_, err = fmt.Fprintln(c.out, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// A table is a list: rows for people, objects in JSON.
type table struct {
	columns []string // "key:HEADING", "key" for JSON only, ":HEADING" for people only; nil: no headings, and no JSON
	rows    [][]any
}

func newTable(columns ...string) *table { return &table{columns: columns} }

// add adds a row with a cell for each column. In JSON a number, a time and scopes stay what they are, and everything
// else is its text.
func (t *table) add(cells ...any) { t.rows = append(t.rows, cells) }

// objects is the table in JSON. Without rows it is [] and not null.
func (t *table) objects() []map[string]any {
	objects := []map[string]any{}
	for _, row := range t.rows {
		object := map[string]any{}
		for i, column := range t.columns {
			if key, _, _ := strings.Cut(column, ":"); key != "" {
				object[key] = valueOf(row[i])
			}
		}
		objects = append(objects, object)
	}
	return objects
}

func valueOf(cell any) any {
	switch cell := cell.(type) {
	case int, merchant.Scopes:
		return cell
	case time.Time:
		return checkout.FormatTime(cell)
	case *time.Time:
		return checkout.FormatOptionalTime(cell)
	}
	return fmt.Sprint(cell)
}

// print writes the table in columns, the headings first.
func (t *table) print(out io.Writer) error {
	headings := make([]any, len(t.columns))
	for i, column := range t.columns {
		_, heading, _ := strings.Cut(column, ":")
		headings[i] = heading
	}
	lines := t.rows
	if t.columns != nil {
		lines = append([][]any{headings}, lines...)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		var cells []string
		for i, cell := range line {
			if t.columns == nil || headings[i] != "" {
				cells = append(cells, textOf(cell))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// orNone returns the table, or a line when it has no rows.
func (t *table) orNone() any {
	if len(t.rows) > 0 {
		return t
	}
	_, heading, _ := strings.Cut(t.columns[0], ":")
	return heading + ": none"
}

// textOf returns a cell for people, "-" for an empty one. It replaces characters that could control the terminal.
func textOf(cell any) string {
	text := fmt.Sprint(cell)
	switch cell := cell.(type) {
	case merchant.Scopes:
		text = strings.Join(cell, ",")
	case time.Time:
		text = showTime(&cell)
	case *time.Time:
		text = showTime(cell)
	}
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if action.Hidden(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// showTime formats a time for people; nil gives "".
func showTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
