// Package config reads the settings of the production binary from the
// environment and says clearly what is missing or malformed.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Config holds every setting. README.md, "Configuration", lists them.
type Config struct {
	DatabaseURL       string `env:"DATABASE_URL,required,notEmpty"`
	DatabaseMaxConns  int32  `env:"CHECKOUT_DATABASE_MAX_CONNS" envDefault:"20"`
	MasterKeys        string `env:"CHECKOUT_MASTER_KEYS,required,notEmpty"`
	TemporalAddress   string `env:"TEMPORAL_ADDRESS" envDefault:"127.0.0.1:7233"`
	TemporalNamespace string `env:"TEMPORAL_NAMESPACE" envDefault:"checkout"`
	APIAddress        string `env:"CHECKOUT_API_ADDRESS" envDefault:"127.0.0.1:8080"`
	PageAddress       string `env:"CHECKOUT_PAGE_ADDRESS" envDefault:"127.0.0.1:8081"`
	PageURL           string `env:"CHECKOUT_PAGE_URL" envDefault:"http://127.0.0.1:8081"`
	LogLevel          string `env:"CHECKOUT_LOG_LEVEL" envDefault:"info"`

	// For local development, in test mode only.
	AllowLoopback   bool          `env:"CHECKOUT_TEST_ALLOW_LOOPBACK_WEBHOOKS"`
	SessionLifetime time.Duration `env:"CHECKOUT_TEST_SESSION_LIFETIME" envDefault:"1h"`
	RetrySchedule   string        `env:"CHECKOUT_TEST_RETRY_SCHEDULE"`

	// Parsed from the above.
	Keys         *storage.Keyring `env:"-"`
	Level        slog.Level       `env:"-"`
	TestSchedule webhook.Schedule `env:"-"` // nil: the schedule of the interface document
}

// Load reads environment, a list of NAME=value. Its error names every setting
// that is wrong and never quotes a secret.
func Load(environment []string) (Config, error) {
	var c Config
	if err := env.ParseWithOptions(&c, env.Options{Environment: env.ToMap(environment)}); err != nil {
		return Config{}, describe(err)
	}
	var faults []error
	check := func(name string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %w", name, err))
		}
	}
	var err error
	c.Keys, err = storage.ParseKeyring(c.MasterKeys)
	check("CHECKOUT_MASTER_KEYS", err)
	check("CHECKOUT_LOG_LEVEL", c.Level.UnmarshalText([]byte(c.LogLevel)))
	check("DATABASE_URL", CheckDatabaseURL(c.DatabaseURL))
	check("CHECKOUT_PAGE_URL", checkURL(c.PageURL, "http", "https"))
	c.PageURL = strings.TrimRight(c.PageURL, "/")
	check("TEMPORAL_ADDRESS", checkAddress(c.TemporalAddress))
	check("CHECKOUT_API_ADDRESS", checkAddress(c.APIAddress))
	check("CHECKOUT_PAGE_ADDRESS", checkAddress(c.PageAddress))
	if c.DatabaseMaxConns < 2 {
		check("CHECKOUT_DATABASE_MAX_CONNS", errors.New("must be at least 2"))
	}
	check("CHECKOUT_TEST_SESSION_LIFETIME", CheckSessionLifetime(c.SessionLifetime))
	c.TestSchedule, err = ParseSchedule(c.RetrySchedule)
	check("CHECKOUT_TEST_RETRY_SCHEDULE", err)
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	return c, nil
}

// describe turns the reader's error into one line per setting, without values.
func describe(err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var faults []error
	for _, e := range all.Errors {
		var (
			missing env.VarIsNotSetError
			empty   env.EmptyVarError
			parse   env.ParseError
		)
		switch {
		case errors.As(e, &missing):
			faults = append(faults, fmt.Errorf("%s is not set", missing.Key))
		case errors.As(e, &empty):
			faults = append(faults, fmt.Errorf("%s is empty", empty.Key))
		case errors.As(e, &parse):
			faults = append(faults, fmt.Errorf("%s is not a valid %s", settingName(parse.Name), parse.Type))
		default:
			faults = append(faults, e)
		}
	}
	return errors.Join(faults...)
}

// settingName finds the variable of a field of Config.
func settingName(field string) string {
	params, err := env.GetFieldParams(&Config{})
	if err != nil {
		return field
	}
	for _, p := range params {
		if strings.EqualFold(strings.ReplaceAll(p.Key, "_", ""), "CHECKOUT"+field) || strings.HasSuffix(strings.ReplaceAll(p.Key, "_", ""), strings.ToUpper(field)) {
			return p.Key
		}
	}
	return field
}

// CheckSessionLifetime bounds a shortened lifetime.
func CheckSessionLifetime(d time.Duration) error {
	if d < time.Second || d > checkout.SessionLifetime {
		return fmt.Errorf("must be between 1s and %s", checkout.SessionLifetime)
	}
	return nil
}

// ParseSchedule reads five delays of at least one second, separated by commas;
// "" is nil. Temporal's timers are not finer than a second.
func ParseSchedule(text string) (webhook.Schedule, error) {
	if text == "" {
		return nil, nil
	}
	var s webhook.Schedule
	for part := range strings.SplitSeq(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || d < time.Second {
			return nil, errors.New(`must be five delays of at least 1s, such as "1s,2s,3s,4s,5s"`)
		}
		s = append(s, d)
	}
	if len(s) != webhook.MaxAttempts-1 {
		return nil, fmt.Errorf("must be %d delays, not %d", webhook.MaxAttempts-1, len(s))
	}
	return s, nil
}

// CheckDatabaseURL says whether text can be the URL of a PostgreSQL.
func CheckDatabaseURL(text string) error { return checkURL(text, "postgres", "postgresql") }

func checkURL(text string, schemes ...string) error {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" {
		for _, s := range schemes {
			if u.Scheme == s {
				return nil
			}
		}
	}
	return fmt.Errorf("must be a URL that begins with %s://", strings.Join(schemes, ":// or "))
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return errors.New("must be host:port")
	}
	return nil
}
