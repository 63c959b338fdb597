package sqlite

// database/sql knows no driver of this name, so its error says why.
const goSQLDriverName = "sqlite, which is left out of the local stack's build of Temporal"

func (*db) IsDupEntryError(error) bool { return false }

func isTableExistsError(error) bool { return false }
