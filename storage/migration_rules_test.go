package storage

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// schemaOfRelease1 made the tables, so it stops nothing.
const schemaOfRelease1 = "0110_release_1.sql"

// accepted are faults that somebody has judged to be harmless, as "file: fault", with the reason.
var accepted = map[string]string{}

func TestMigrations_StopNoRunningService(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations, "migrations/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimPrefix(file, "migrations/")
		if name == schemaOfRelease1 {
			continue
		}
		text, err := fs.ReadFile(migrations, file)
		require.NoError(t, err)
		for _, fault := range judge(string(text)) {
			if accepted[name+": "+fault] == "" {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
}

// change is a kind of statement about a table that the build of before uses. The table is the first group
// of its pattern.
type change struct {
	pattern *regexp.Regexp
	unless  *regexp.Regexp // does no harm
	instead string
}

const (
	table       = `(?:ONLY )?(?:IF EXISTS )?("?\w+"?)`
	alterTable  = `^ALTER TABLE ` + table + ` .*`
	addColumn   = alterTable + `\bADD COLUMN (?:IF NOT EXISTS )?"?\w+"? `
	aConstraint = `\bADD (?:CONSTRAINT \w+ )?`
)

// changes are matched against statements in upper case, without comments, with single blanks and one
// action of ALTER TABLE each.
var changes = []change{
	{regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON ` + table), nil,
		"blocks every write while it builds. Write it into a file that begins with -- +goose NO TRANSACTION, as " +
			"DROP INDEX CONCURRENTLY IF EXISTS name; CREATE INDEX CONCURRENTLY name ON …"},
	{regexp.MustCompile(alterTable + `\bSET NOT NULL\b`), nil,
		"reads the whole table under a lock. Add CHECK (… IS NOT NULL) NOT VALID, and VALIDATE CONSTRAINT in the next migration"},
	{regexp.MustCompile(alterTable + aConstraint + `(?:CHECK|FOREIGN KEY)\b`), regexp.MustCompile(`\bNOT VALID\b`),
		"reads the whole table under a lock. Add it NOT VALID, and VALIDATE CONSTRAINT in the next migration"},
	{regexp.MustCompile(alterTable + aConstraint + `(?:UNIQUE|PRIMARY KEY|EXCLUDE)\b`), regexp.MustCompile(`\bUSING INDEX\b`),
		"builds an index under a lock. CREATE UNIQUE INDEX CONCURRENTLY first, then ADD CONSTRAINT … USING INDEX"},
	{regexp.MustCompile(addColumn + `.*\bCHECK\b`), nil,
		"reads the whole table under a lock. Add the column alone, then the constraint NOT VALID"},
	{regexp.MustCompile(addColumn + `.*\b(?:UNIQUE|PRIMARY KEY)\b`), nil,
		"builds an index under a lock. Add the column alone, then CREATE UNIQUE INDEX CONCURRENTLY"},
	{regexp.MustCompile(addColumn + `.*\bNOT NULL\b`), regexp.MustCompile(`\bDEFAULT\b`),
		"refuses the rows that are there, and those that the build of before inserts. Give it a DEFAULT"},
	{regexp.MustCompile(addColumn + `.*(?:\bGENERATED\b|\b(?:SMALL|BIG)?SERIAL\b)`), nil,
		"writes the whole table again under a lock. Add a plain column and fill it in pages"},
	{regexp.MustCompile(addColumn + `.*\bDEFAULT .*(?:\w\(|\bNEXTVAL\b)`),
		regexp.MustCompile(`\bDEFAULT (?:NOW\(\)|STATEMENT_TIMESTAMP\(\)|TRANSACTION_TIMESTAMP\(\))`),
		"computes a value for each row under a lock. Only a constant or now() is free; fill others in pages"},
	{regexp.MustCompile(alterTable + `\bALTER (?:COLUMN )?"?\w+"? (?:SET DATA )?TYPE\b`), nil,
		"writes the whole table again under a lock. Add a new column and fill it in pages"},
	{regexp.MustCompile(alterTable + `\bDROP (?:COLUMN |IF EXISTS )*(?:"?\w+"?)`), regexp.MustCompile(`\bDROP (?:CONSTRAINT|DEFAULT|NOT NULL|EXPRESSION|IDENTITY)\b`),
		"takes away what the build of before reads. Drop it one release after the last build that reads it, and say so in accepted"},
	{regexp.MustCompile(alterTable + `\bRENAME\b`), nil,
		"takes away what the build of before reads. Add the new name beside the old one"},
	{regexp.MustCompile(`^DROP TABLE ` + table), nil,
		"takes away what the build of before reads. Drop it one release after the last build that reads it, and say so in accepted"},
	{regexp.MustCompile(`^(?:LOCK TABLE|VACUUM FULL|CLUSTER|TRUNCATE) ` + table), nil, "locks the whole table"},
}

var (
	created    = regexp.MustCompile(`^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?("?\w+"?)`)
	concurrent = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (IF NOT EXISTS )?(\w+)`)
	validates  = regexp.MustCompile(`\bVALIDATE CONSTRAINT (\w+)`)
	notValid   = regexp.MustCompile(`\bADD CONSTRAINT (\w+) .*\bNOT VALID\b`)
)

// judge returns what in the Up part of a migration stops a running service. A table that the migration
// itself creates may be changed at will.
func judge(text string) (faults []string) {
	inTransaction := !strings.Contains(text, "-- +goose NO TRANSACTION")
	own, dropped, added := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range statements(text) {
		note := func(why string) { faults = append(faults, fmt.Sprintf("%q %s", s, why)) }
		if m := created.FindStringSubmatch(s); m != nil {
			own[m[1]] = true
		}
		dropped[strings.TrimPrefix(s, "DROP INDEX CONCURRENTLY IF EXISTS ")] = true
		if m := concurrent.FindStringSubmatch(s); m != nil {
			switch {
			case inTransaction:
				note("cannot run in a transaction. Begin the file with -- +goose NO TRANSACTION")
			case m[1] != "":
				note("keeps the useless index of a build that failed. Leave IF NOT EXISTS away")
			case !dropped[m[2]]:
				note("fails when it is repeated. Write DROP INDEX CONCURRENTLY IF EXISTS " + m[2] + " before it")
			}
		}
		if m := notValid.FindStringSubmatch(s); m != nil {
			added[m[1]] = true
		}
		if m := validates.FindStringSubmatch(s); m != nil && inTransaction && added[m[1]] {
			note("reads the whole table under the lock of ADD CONSTRAINT. Write it into the next migration")
		}
		for _, c := range changes {
			m := c.pattern.FindStringSubmatch(s)
			if m != nil && !own[m[1]] && (c.unless == nil || !c.unless.MatchString(s)) {
				note(c.instead)
			}
		}
	}
	return faults
}

var (
	lineComment  = regexp.MustCompile(`--[^\n]*`)
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	quoted       = regexp.MustCompile(`(?s)'(?:[^']|'')*'`)
	dollarQuoted = regexp.MustCompile(`(?s)\$\w*\$.*?\$\w*\$`)
	blanks       = regexp.MustCompile(`\s+`)
)

// statements returns the statements of the Up part: in upper case, with empty texts and function bodies, and
// each action of ALTER TABLE as a statement of its own.
func statements(text string) (all []string) {
	text, _, _ = strings.Cut(text, "-- +goose Down")
	text = dollarQuoted.ReplaceAllString(lineComment.ReplaceAllString(text, ""), "''")
	text = quoted.ReplaceAllString(blockComment.ReplaceAllString(text, ""), "''")
	for statement := range strings.SplitSeq(text, ";") {
		s := strings.ToUpper(strings.TrimSpace(blanks.ReplaceAllString(statement, " ")))
		m := regexp.MustCompile(`^ALTER TABLE ` + table).FindString(s)
		switch {
		case s == "":
		case m == "":
			all = append(all, s)
		default:
			for _, action := range splitTop(strings.TrimPrefix(s, m)) {
				all = append(all, m+" "+withColumn(strings.TrimSpace(action)))
			}
		}
	}
	return all
}

// withColumn adds the word COLUMN, which ADD may leave out.
func withColumn(action string) string {
	words := strings.Fields(action)
	if words[0] == "ADD" && !slices.Contains([]string{"COLUMN", "CONSTRAINT", "CHECK", "UNIQUE", "PRIMARY", "FOREIGN",
		"EXCLUDE"}, words[1]) {
		return strings.Replace(action, "ADD ", "ADD COLUMN ", 1)
	}
	return action
}

// splitTop splits at the commas that are in no parentheses.
func splitTop(s string) (parts []string) {
	depth, from := 0, 0
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			parts, from = append(parts, s[from:i]), i+1
		}
	}
	return append(parts, s[from:])
}

func TestMigrationRules_FindEachFault(t *testing.T) {
	t.Parallel()
	const concurrently = "-- +goose NO TRANSACTION\n"
	for planted, want := range map[string]string{
		"CREATE INDEX a ON shop (b);":                                                                         "blocks every write",
		"create unique index if not exists a\n  on only shop (b);":                                            "blocks every write",
		"ALTER TABLE shop ALTER COLUMN b SET NOT NULL;":                                                       "NOT NULL) NOT VALID",
		"ALTER TABLE shop ADD COLUMN c int, ALTER b SET NOT NULL;":                                            "NOT NULL) NOT VALID",
		"ALTER TABLE shop ADD CONSTRAINT c CHECK (b > 0);":                                                    "Add it NOT VALID",
		"ALTER TABLE shop ADD CHECK (b > 0);":                                                                 "Add it NOT VALID",
		"ALTER TABLE shop ADD CONSTRAINT c FOREIGN KEY (b) REFERENCES d;":                                     "Add it NOT VALID",
		"ALTER TABLE shop ADD CONSTRAINT c UNIQUE (b);":                                                       "USING INDEX",
		"ALTER TABLE shop ADD COLUMN b int CONSTRAINT c CHECK (b > 0);":                                       "the column alone",
		"ALTER TABLE shop ADD b int UNIQUE;":                                                                  "the column alone",
		"ALTER TABLE shop ADD COLUMN b int NOT NULL;":                                                         "Give it a DEFAULT",
		"ALTER TABLE shop ADD COLUMN b uuid DEFAULT gen_random_uuid();":                                       "computes a value for each row",
		"ALTER TABLE shop ADD COLUMN b timestamptz DEFAULT clock_timestamp();":                                "computes a value for each row",
		"ALTER TABLE shop ADD COLUMN b bigint GENERATED ALWAYS AS IDENTITY;":                                  "writes the whole table again",
		"ALTER TABLE shop ADD COLUMN b bigserial;":                                                            "writes the whole table again",
		"ALTER TABLE shop ALTER COLUMN b TYPE bigint;":                                                        "writes the whole table again",
		"ALTER TABLE shop ALTER b SET DATA TYPE bigint;":                                                      "writes the whole table again",
		"ALTER TABLE shop DROP COLUMN b;":                                                                     "the build of before reads",
		"ALTER TABLE shop DROP b;":                                                                            "the build of before reads",
		"ALTER TABLE shop RENAME COLUMN b TO c;":                                                              "the build of before reads",
		"ALTER TABLE shop RENAME TO d;":                                                                       "the build of before reads",
		"DROP TABLE shop;":                                                                                    "the build of before reads",
		"LOCK TABLE shop;":                                                                                    "locks the whole table",
		"CREATE INDEX CONCURRENTLY a ON shop (b);":                                                            "cannot run in a transaction",
		concurrently + "CREATE INDEX CONCURRENTLY a ON shop (b);":                                             "fails when it is repeated",
		concurrently + "CREATE INDEX CONCURRENTLY IF NOT EXISTS a ON shop (b);":                               "keeps the useless index",
		"ALTER TABLE shop ADD CONSTRAINT c CHECK (b > 0) NOT VALID;\nALTER TABLE shop VALIDATE CONSTRAINT c;": "the next migration",
	} {
		faults := judge("-- +goose Up\n" + planted)
		require.Len(t, faults, 1, planted)
		require.Contains(t, faults[0], want, planted)
	}
	for _, harmless := range []string{
		"CREATE TABLE shop (b int CHECK (b > 0));\nCREATE INDEX a ON shop (b);\nALTER TABLE shop ALTER b SET NOT NULL;",
		"ALTER TABLE shop ADD COLUMN b int;",
		"ALTER TABLE shop ADD COLUMN b int REFERENCES d;",
		"ALTER TABLE shop ADD COLUMN b jsonb NOT NULL DEFAULT '[]', ADD COLUMN c text; -- CREATE INDEX x ON shop (c);",
		"ALTER TABLE shop ADD COLUMN b timestamptz NOT NULL DEFAULT now();",
		"ALTER TABLE shop ADD CONSTRAINT c CHECK (b > 0) NOT VALID;",
		"ALTER TABLE shop VALIDATE CONSTRAINT c;",
		"ALTER TABLE shop DROP CONSTRAINT c;\nALTER TABLE shop ALTER b DROP NOT NULL;",
		"ALTER TABLE shop ADD CONSTRAINT c UNIQUE USING INDEX d;",
		"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DROP TABLE shop; END $$;",
		"COMMENT ON TABLE shop IS 'DROP TABLE; CREATE INDEX a ON b';",
		concurrently + "DROP INDEX CONCURRENTLY IF EXISTS a;\nCREATE INDEX CONCURRENTLY a ON shop (b);",
		"ALTER TABLE shop ADD COLUMN b int;\n-- +goose Down\nALTER TABLE shop DROP COLUMN b;",
	} {
		require.Empty(t, judge("-- +goose Up\n"+harmless), harmless)
	}
}
