package config

import "errors"

// Pooler holds the settings of PgBouncer in front of PostgreSQL.
type Pooler struct {
	// `pgbouncer` says that `DATABASE_URL` leads to PgBouncer in transaction mode. Without it the URL
	// leads to PostgreSQL itself.
	Kind string `env:"CHECKOUT_DATABASE_POOLER"`
	// PostgreSQL itself, past PgBouncer, as a postgres:// URL. Required with `CHECKOUT_DATABASE_POOLER`.
	// Only `checkout setup` uses it.
	DirectURL string `env:"CHECKOUT_DATABASE_DIRECT_URL"`
}

const pgBouncer = "pgbouncer"

func (p Pooler) check(report func(name string, err error)) {
	const direct = "CHECKOUT_DATABASE_DIRECT_URL"
	switch {
	case p.Kind == "" && p.DirectURL == "":
	case p.Kind == "":
		report("CHECKOUT_DATABASE_POOLER", errors.New("is required with "+direct))
	case p.DirectURL == "":
		report("CHECKOUT_DATABASE_POOLER", oneOf(p.Kind, pgBouncer))
		report(direct, errors.New("is required with CHECKOUT_DATABASE_POOLER"))
	default:
		report("CHECKOUT_DATABASE_POOLER", oneOf(p.Kind, pgBouncer))
		report(direct, CheckDatabaseURL(p.DirectURL))
	}
}
