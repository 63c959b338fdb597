package config_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write deploy/release/settings.md")

// The lines before and after the tables of the page.
const (
	settingsPage = "../../release/settings.md"
	tableBegins  = "<!-- settings: made by go test ./deploy/program/config -run TestSettings -update -->\n"
	tableEnds    = "<!-- end of settings -->\n"
)

// TestSettings_AreAllInTheOperatorsGuide checks that the tables in deploy/release/settings.md are generated
// from Config.
func TestSettings_AreAllInTheOperatorsGuide(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(settingsPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(content), tableBegins)
	require.True(t, ok, "%s has no line %s", settingsPage, tableBegins)
	_, after, ok := strings.Cut(rest, tableEnds)
	require.True(t, ok, "%s has no line %s", settingsPage, tableEnds)

	table := "Each setting can also be read from a file: `NAME_FILE` holds the file's absolute path, and a trailing newline is\n" +
		"ignored. Settings that name a file have no such form. After an unknown name, e.g. a typo, every command refuses to\n" +
		"start and names it.\n\n" +
		settingsTable(t, "config.go", "Config") +
		"\n**PgBouncer.** See [PgBouncer](README.md#pgbouncer).\n\n" + settingsTable(t, "pooler.go", "Pooler") +
		"\n**Temporal.**\n\n" + settingsTable(t, "temporal.go", "Temporal") +
		"\n**Schedules.** Only `checkout setup` reads these.\n\n" + settingsTable(t, "setup.go", "Schedules") +
		"\n**Live mode.** Without a key of Stripe it is off.\n\n" + settingsTable(t, "networks.go", "Networks")
	want := before + tableBegins + table + tableEnds + after
	if *update {
		require.NoError(t, os.WriteFile(settingsPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(content),
		"the settings have changed; write the table again with: go test ./deploy/program/config -run TestSettings -update")
}

// settingsTable returns a row for each field of the struct that is read from the environment.
func settingsTable(t *testing.T, in, of string) string {
	file, err := parser.ParseFile(token.NewFileSet(), in, nil, parser.ParseComments)
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	rows := 0
	for _, field := range configFields(t, file, of) {
		if field.Tag == nil { // a struct with a table of its own
			continue
		}
		name, options, _ := strings.Cut(tagOf(t, field).Get("env"), ",")
		if name == "-" {
			continue
		}
		meaning := strings.Join(strings.Fields(field.Doc.Text()), " ")
		require.NotEmpty(t, meaning, "say in a comment above the field what %s means", name)

		byDefault := tagOf(t, field).Get("envDefault")
		switch {
		case strings.Contains(options, "required"):
			byDefault = "needed"
		case byDefault == "" && fmt.Sprint(field.Type) == "bool":
			byDefault = "`false`"
		case byDefault != "":
			byDefault = "`" + byDefault + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", name, byDefault, meaning)
		rows++
	}
	require.Greater(t, rows, 1, "the test did not find the settings")
	return table.String()
}

func configFields(t *testing.T, file *ast.File, of string) []*ast.Field {
	var fields []*ast.Field
	ast.Inspect(file, func(node ast.Node) bool {
		if named, ok := node.(*ast.TypeSpec); ok && named.Name.Name == of {
			fields = named.Type.(*ast.StructType).Fields.List
		}
		return true
	})
	require.NotEmpty(t, fields)
	return fields
}

func tagOf(t *testing.T, field *ast.Field) reflect.StructTag {
	tag, err := strconv.Unquote(field.Tag.Value)
	require.NoError(t, err)
	return reflect.StructTag(tag)
}
