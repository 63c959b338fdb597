// Package config reads the settings of the production binary from the environment. Its errors name
// every missing or malformed setting.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/checkout/activities/mail"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// Config holds every setting. A test generates the table of settings in deploy/release/settings.md from this
// struct: from each field's name, default and comment.
type Config struct {
	// PostgreSQL, as a postgres:// URL.
	DatabaseURL string `env:"DATABASE_URL,required,notEmpty"`
	// Keys that seal webhook secrets: `id:base64` of 32 bytes, several separated by commas.
	// `checkout master-key new` makes one.
	// The first one seals, all of them unseal.
	Keys *pg.Keyring `env:"CHECKOUT_MASTER_KEYS,required,notEmpty"`
	// PostgreSQL connections of a process, at least 2. Creating sessions uses at most half of them, and so does what
	// waits for a treasury account; the reads and the writes of one merchant use a third each.
	DatabaseMaxConns int32 `env:"CHECKOUT_DATABASE_MAX_CONNS" envDefault:"20"`

	// Where the REST API listens.
	APIAddress string `env:"CHECKOUT_API_ADDRESS" envDefault:"127.0.0.1:8080"`
	// Where the hosted page listens.
	PageAddress string `env:"CHECKOUT_PAGE_ADDRESS" envDefault:"127.0.0.1:8081"`
	// The hosted page's public address, without a path.
	PageURL string `env:"CHECKOUT_PAGE_URL" envDefault:"http://127.0.0.1:8081"`
	// Where the dashboard listens.
	DashboardAddress string `env:"CHECKOUT_DASHBOARD_ADDRESS" envDefault:"127.0.0.1:8083"`
	// The REST API's public address, without a path, for the OpenAPI document and the dashboard's links to
	// the documentation. Without it the document names the address from which it came, and there are no
	// links.
	APIURL string `env:"CHECKOUT_API_URL"`
	// The dashboard's public address, without a path.
	DashboardURL string `env:"CHECKOUT_DASHBOARD_URL" envDefault:"http://127.0.0.1:8083"`
	// Temporal's UI as the dashboard's users reach it, for links to runs. Without it there are none.
	TemporalUIURL string `env:"CHECKOUT_TEMPORAL_UI_URL"`
	// Addresses and networks of the proxies in front, separated by commas. `X-Forwarded-For` is
	// trusted only from these. Behind another proxy all customers share one rate limit.
	Proxies []netip.Prefix `env:"CHECKOUT_TRUSTED_PROXIES"`

	// Where a worker answers `/healthz` and `/readyz`. An API answers them at `CHECKOUT_API_ADDRESS`.
	HealthAddress string `env:"CHECKOUT_HEALTH_ADDRESS" envDefault:"127.0.0.1:8084"`
	// How long an API keeps answering after it was told to stop, while it is not ready. Give proxies at
	// least this long to drain. At most 1m.
	StopDelay time.Duration `env:"CHECKOUT_STOP_DELAY" envDefault:"0s"`
	// `debug`, `info`, `warn` or `error`. The log is JSON lines on standard output.
	Level slog.Level `env:"CHECKOUT_LOG_LEVEL" envDefault:"info"`

	// Requests a second of one test key, counted separately for reads and writes.
	TestRateLimit float64 `env:"CHECKOUT_TEST_RATE_LIMIT" envDefault:"25"`
	// Requests a second of one live key, counted separately for reads and writes.
	LiveRateLimit float64 `env:"CHECKOUT_LIVE_RATE_LIMIT" envDefault:"100"`
	// Requests a second without a valid key from one address (IPv6: one /64), after the first 100.
	BadKeyRateLimit float64 `env:"CHECKOUT_BAD_KEY_RATE_LIMIT" envDefault:"1"`
	// Requests a second to the hosted page from one address (IPv6: one /64), after a burst of ten times as
	// many.
	PageRateLimit float64 `env:"CHECKOUT_PAGE_RATE_LIMIT" envDefault:"20"`
	// Forms a second with a refused card, from one address, after a burst of a hundred times as many. At one live merchant
	// the burst is half as large, and afterwards a sixth as many may be refused.
	FormRateLimit float64 `env:"CHECKOUT_FORM_RATE_LIMIT" envDefault:"0.2"`
	// Requests a second to the dashboard from one address, after a burst of ten times as many. Forms: a
	// twentieth of that.
	DashboardRateLimit float64 `env:"CHECKOUT_DASHBOARD_RATE_LIMIT" envDefault:"20"`

	// Test-mode webhooks may reach this computer. Live ones never may.
	AllowLoopback bool `env:"CHECKOUT_TEST_ALLOW_LOOPBACK_WEBHOOKS"`
	// Lifetime of test sessions, at most 1h. Live ones have one hour.
	SessionLifetime time.Duration `env:"CHECKOUT_TEST_SESSION_LIFETIME" envDefault:"1h"`
	// Five delays of at least 1s for test deliveries, such as `5s,10s,15s,20s,30s`. Live ones keep the
	// schedule.
	TestSchedule webhook.Schedule `env:"CHECKOUT_TEST_RETRY_SCHEDULE"`

	// How long all first attempts to a webhook must fail before it is marked as failing and its people get an
	// e-mail; at least 1m, or 0s: never.
	EndpointFailingAfter time.Duration `env:"CHECKOUT_ENDPOINT_FAILING_AFTER" envDefault:"1h"`
	// How long such a webhook must accept nothing before it is put on hold: then its events wait. At least as
	// long as the previous setting; 0s: never.
	EndpointHeldAfter time.Duration `env:"CHECKOUT_ENDPOINT_HELD_AFTER" envDefault:"72h"`
	// How many attempts to one webhook address a worker may have under way, 4 to 500. Fewer are under way while
	// the receiver is slow or refuses.
	EndpointMaxInFlight uint16 `env:"CHECKOUT_ENDPOINT_MAX_IN_FLIGHT" envDefault:"64"`

	// Percent of a merchant's live payments of 30 days that may be disputed, once five are. Above it opens the finding
	// `merchant_disputes`. 0: no limit.
	DisputeLimit float64 `env:"CHECKOUT_DISPUTE_LIMIT" envDefault:"0.75"`
	// Percent of a merchant's live payments of 30 days that may be refunded, once twenty are. Above it opens the finding
	// `merchant_refunds`. 0: no limit.
	RefundLimit float64 `env:"CHECKOUT_REFUND_LIMIT" envDefault:"30"`
	// How many declined cards of a live merchant within 10 minutes open the finding `card_testing`, unless more payments
	// succeed. Above it an address waits after each declined card. 0: no limit.
	DeclineLimit uint16 `env:"CHECKOUT_DECLINE_LIMIT" envDefault:"50"`
	// Suspend the payments of a merchant above one of these limits, and above the first one its payouts too, until
	// `checkout merchant resume`.
	LimitsSuspend bool `env:"CHECKOUT_LIMITS_SUSPEND"`

	// Who takes the cards of test mode: `sandbox`, or `stripe` in Stripe's test mode.
	TestCards string `env:"CHECKOUT_TEST_CARDS" envDefault:"sandbox"`
	// Where the payouts of test mode are sent: `sandbox`, or `networks`, a real test network such as
	// Sepolia.
	TestChains string `env:"CHECKOUT_TEST_CHAINS" envDefault:"sandbox"`

	// How long a changed live payout address waits before it takes effect. Meanwhile any owner can stop it.
	// At most 168h; 0s: not at all.
	PayoutAddressDelay time.Duration `env:"CHECKOUT_PAYOUT_ADDRESS_DELAY" envDefault:"24h"`
	// Users without a second factor must enroll before inviting or changing an owner, creating a live key or
	// changing a live payout address. `false`: they need only their password.
	RequireSecondFactor bool `env:"CHECKOUT_REQUIRE_SECOND_FACTOR" envDefault:"true"`
	// Mail server for notices, invitations, forgotten passwords and receipts: `smtps://user:password@host:465`, or
	// `smtp://user:password@host:587`, which requires STARTTLS unless the host is this computer. Without
	// it no e-mail is sent.
	SMTPURL string `env:"CHECKOUT_SMTP_URL"`
	// Sender address of the e-mails. Required with `CHECKOUT_SMTP_URL`.
	MailFrom string `env:"CHECKOUT_MAIL_FROM"`

	// PgBouncer and Temporal have tables of their own.
	Pooler   Pooler
	Temporal Temporal
	// The networks of live mode, with a table of their own, and those of test mode, which have the same
	// settings under the names of testName.
	Live Networks
	Test Networks `env:"-"`

	// SMTP is made of the above; nil: no mail is sent.
	SMTP *mail.SMTP `env:"-"`
}

// Load reads environment, a list of NAME=value. Its error names every wrong setting and never
// quotes a secret.
func Load(environment []string) (Config, error) {
	var c Config
	err := load(environment, &c, func(settings map[string]string, report func(string, error)) {
		c.parseTest(settings, report)
		c.check(report)
	})
	return c, err
}

// load fills filled, a pointer to a struct, from environment, and checks it. check gets all settings by
// name, and passes each fault to report. The error names every wrong setting; filled is then empty.
func load[T any](
	environment []string, filled *T, check func(settings map[string]string, report func(name string, err error)),
) error {
	faults := map[string]error{} // the first fault of each setting, by name
	report := func(name string, err error) {
		if err != nil && faults[name] == nil && faults[name+fileSuffix] == nil {
			faults[name] = err
		}
	}
	settings := read(environment, report)
	for name, err := range parse(filled, settings) {
		report(name, err)
	}
	check(settings, report)
	if len(faults) == 0 {
		return nil
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		all = append(all, fmt.Errorf("%s %w", name, faults[name]))
	}
	*filled = *new(T)
	return errors.Join(all...)
}

// check passes the faults of the settings to report.
func (c *Config) check(report func(name string, err error)) {
	report("DATABASE_URL", CheckDatabaseURL(c.DatabaseURL))
	c.Pooler.check(report)
	c.checkAddresses(report)
	report("CHECKOUT_DATABASE_MAX_CONNS", atLeast(c.DatabaseMaxConns, 2))
	report("CHECKOUT_STOP_DELAY", between(c.StopDelay, 0, time.Minute))
	for name, perSecond := range map[string]float64{
		"CHECKOUT_TEST_RATE_LIMIT": c.TestRateLimit, "CHECKOUT_LIVE_RATE_LIMIT": c.LiveRateLimit,
		"CHECKOUT_BAD_KEY_RATE_LIMIT": c.BadKeyRateLimit, "CHECKOUT_PAGE_RATE_LIMIT": c.PageRateLimit,
		"CHECKOUT_FORM_RATE_LIMIT": c.FormRateLimit, "CHECKOUT_DASHBOARD_RATE_LIMIT": c.DashboardRateLimit,
	} {
		report(name, between(perSecond, 0.1, 100_000)) // the most that one PostgreSQL can count
	}
	report("CHECKOUT_TEST_SESSION_LIFETIME", CheckSessionLifetime(c.SessionLifetime))
	if c.EndpointFailingAfter != 0 {
		report("CHECKOUT_ENDPOINT_FAILING_AFTER", atLeast(c.EndpointFailingAfter, time.Minute))
	}
	if c.EndpointHeldAfter != 0 {
		report("CHECKOUT_ENDPOINT_HELD_AFTER", atLeast(c.EndpointHeldAfter, max(c.EndpointFailingAfter, time.Minute)))
	}
	report("CHECKOUT_ENDPOINT_MAX_IN_FLIGHT", between(c.EndpointMaxInFlight, 4, 500))
	report("CHECKOUT_DISPUTE_LIMIT", between(c.DisputeLimit, 0, 100))
	report("CHECKOUT_REFUND_LIMIT", between(c.RefundLimit, 0, 100))
	report("CHECKOUT_PAYOUT_ADDRESS_DELAY", between(c.PayoutAddressDelay, 0, 7*24*time.Hour))
	c.checkMail(report)
	c.Temporal.check(report)
	c.checkNetworks(report)
}

func (c *Config) checkMail(report func(name string, err error)) {
	switch {
	case c.SMTPURL == "" && c.MailFrom == "":
	case c.SMTPURL == "":
		report("CHECKOUT_SMTP_URL", errors.New("is required with CHECKOUT_MAIL_FROM"))
	case !checkout.ValidEmail(c.MailFrom):
		report("CHECKOUT_MAIL_FROM", errors.New("must be an e-mail address"))
	default:
		var err error
		c.SMTP, err = mail.NewSMTP(c.SMTPURL, c.MailFrom)
		report("CHECKOUT_SMTP_URL", err)
	}
}

// parseTest fills the networks of test mode.
func (c *Config) parseTest(settings map[string]string, report func(name string, err error)) {
	for name, err := range parse(&c.Test, testNetworks(settings)) {
		report(testName(name), err)
	}
}

func (c *Config) checkNetworks(report func(name string, err error)) {
	report("CHECKOUT_TEST_CARDS", oneOf(c.TestCards, sandbox, cardsStripe))
	report("CHECKOUT_TEST_CHAINS", oneOf(c.TestChains, sandbox, chainsNetworks))
	c.Live.choose(checkout.ModeLive, "", "")
	c.Live.check(report)
	c.Live.readSanctions(report)
	c.Test.choose(checkout.ModeTest, c.TestCards, c.TestChains)
	c.Test.check(report)
	c.Test.readSanctions(report)
	if c.Test.sharesAccount(c.Live) {
		report("CHECKOUT_TEST_ETHEREUM_TREASURY",
			errors.New("must not be CHECKOUT_ETHEREUM_TREASURY on the same chain: use a separate account for each mode"))
	}
	if c.Test.sharesWallet(c.Live) {
		report("CHECKOUT_TEST_BITCOIN_WALLET",
			errors.New("must not be CHECKOUT_BITCOIN_WALLET on the same node: use a separate wallet for each mode"))
	}
}

func (c *Config) checkAddresses(report func(name string, err error)) {
	for name, address := range map[string]*string{
		"CHECKOUT_PAGE_URL": &c.PageURL, "CHECKOUT_API_URL": &c.APIURL, "CHECKOUT_DASHBOARD_URL": &c.DashboardURL,
		"CHECKOUT_TEMPORAL_UI_URL": &c.TemporalUIURL,
	} {
		*address = strings.TrimSuffix(*address, "/")
		if *address != "" || name == "CHECKOUT_PAGE_URL" || name == "CHECKOUT_DASHBOARD_URL" {
			report(name, checkPageURL(*address))
		}
	}
	report("CHECKOUT_DASHBOARD_ADDRESS", checkAddress(c.DashboardAddress))
	report("CHECKOUT_HEALTH_ADDRESS", checkAddress(c.HealthAddress))
	report("CHECKOUT_API_ADDRESS", checkAddress(c.APIAddress))
	report("CHECKOUT_PAGE_ADDRESS", checkAddress(c.PageAddress))
}

// PayoutAddressRules returns what the settings say of payout addresses.
func (c Config) PayoutAddressRules() address.Rules {
	return payoutAddressRules(c.Test.Chains, c.Live, c.Test)
}

func payoutAddressRules(testNetworks bool, live, test Networks) address.Rules {
	return address.Rules{
		TestNetworks: testNetworks,
		Reserved:     map[checkout.Mode][]string{checkout.ModeLive: live.reserved(), checkout.ModeTest: test.reserved()},
		Sanctioned:   map[checkout.Mode]address.List{checkout.ModeLive: live.Sanctioned, checkout.ModeTest: test.Sanctioned},
	}
}

// parsers read the settings whose types are not Go's own. Their errors quote no value.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[pg.Keyring](): func(text string) (any, error) {
		keys, err := pg.ParseKeyring(text)
		if err != nil {
			return nil, err
		}
		return *keys, nil
	},
	reflect.TypeFor[[]netip.Prefix]():   func(text string) (any, error) { return parseNetworks(text) },
	reflect.TypeFor[webhook.Schedule](): func(text string) (any, error) { return ParseSchedule(text) },
	reflect.TypeFor[money.Amount]():     func(text string) (any, error) { return dollars(text) },
	reflect.TypeFor[Feeds]():            func(text string) (any, error) { return feeds(text) },
}

// parse fills a struct from settings. It returns the faults by setting and without values.
func parse[T any](filled *T, settings map[string]string) map[string]error {
	var all env.AggregateError
	if !errors.As(env.ParseWithOptions(filled, env.Options{Environment: settings, FuncMap: parsers}), &all) {
		return nil
	}
	faults := map[string]error{}
	for _, e := range all.Errors {
		var (
			missing env.VarIsNotSetError
			empty   env.EmptyVarError
			parse   env.ParseError
		)
		switch {
		case errors.As(e, &missing):
			faults[missing.Key] = errors.New("is not set")
		case errors.As(e, &empty):
			faults[empty.Key] = errors.New("is empty")
		case errors.As(e, &parse):
			faults[settingName(reflect.TypeFor[T](), parse.Name)] = faultOf(parse)
		}
	}
	return faults
}

// faultOf says what a setting must be.
func faultOf(e env.ParseError) error {
	is := e.Type
	if is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	if _, own := parsers[is]; own || is == reflect.TypeFor[Fraction]() {
		return e.Err
	}
	if is == reflect.TypeFor[slog.Level]() {
		return errors.New("must be debug, info, warn or error")
	}
	return fmt.Errorf("must be a %s", is)
}

// settingName returns the environment variable of a field of a settings' struct, or of a struct in it.
func settingName(settings reflect.Type, field string) string {
	for _, f := range reflect.VisibleFields(settings) {
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case f.Name == field && name != "":
			return name
		case name == "" && f.Type.Kind() == reflect.Struct:
			if name := settingName(f.Type, field); name != "" {
				return name
			}
		}
	}
	return ""
}

// Choices of the networks of test mode.
const (
	sandbox        = "sandbox"
	cardsStripe    = "stripe"
	chainsNetworks = "networks"
)

func oneOf(text string, all ...string) error {
	if !slices.Contains(all, text) {
		return errors.New("must be " + strings.Join(all, " or "))
	}
	return nil
}

// parseNetworks reads addresses and CIDR networks, separated by commas.
func parseNetworks(list string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		network, err := netip.ParsePrefix(entry)
		if address, addressErr := netip.ParseAddr(entry); addressErr == nil {
			network, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			return nil, errors.New("must be addresses or networks such as 10.0.0.0/8, separated by commas")
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func atLeast[T cmp.Ordered](value, least T) error {
	if value < least {
		return fmt.Errorf("must be at least %v", least)
	}
	return nil
}

func between[T cmp.Ordered](value, least, most T) error {
	if !(value >= least && value <= most) { // the form with ! refuses NaN too
		return fmt.Errorf("must be from %v to %v", least, most)
	}
	return nil
}

// CheckSessionLifetime returns an error if d is not a valid lifetime of test sessions.
func CheckSessionLifetime(d time.Duration) error {
	return between(d, time.Second, checkout.SessionLifetime)
}

// ShortSchedule returns a valid schedule in the form of ParseSchedule: 1 s, 2 s, and so on.
func ShortSchedule() string {
	var delays []string
	for n := 1; n < webhook.MaxAttempts; n++ {
		delays = append(delays, strconv.Itoa(n)+"s")
	}
	return strings.Join(delays, ",")
}

// ParseSchedule reads a delay for each retry, separated by commas; "" gives nil. A delay has at least one
// second, because Temporal's timers are not finer.
func ParseSchedule(text string) (webhook.Schedule, error) {
	if text == "" {
		return nil, nil
	}
	var s webhook.Schedule
	for part := range strings.SplitSeq(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil || d < time.Second {
			return nil, fmt.Errorf("must be %d delays of at least 1s, such as %q", webhook.MaxAttempts-1, ShortSchedule())
		}
		s = append(s, d)
	}
	if len(s) != webhook.MaxAttempts-1 {
		return nil, fmt.Errorf("must be %d delays, not %d", webhook.MaxAttempts-1, len(s))
	}
	return s, nil
}

// CheckDatabaseURL returns an error if text is not a URL of PostgreSQL. The error never quotes
// text, because it holds a password.
func CheckDatabaseURL(text string) error {
	rest, ok := strings.CutPrefix(text, "postgres://")
	if !ok {
		rest, ok = strings.CutPrefix(text, "postgresql://")
	}
	if !ok {
		return errors.New("must begin with postgres:// or postgresql://")
	}
	authority, _, _ := strings.Cut(rest, "/")
	if strings.Count(authority, "@") > 1 {
		return errors.New("has more than one @ before the host: write an @ of the password as %40")
	}
	if _, err := pgconn.ParseConfig(text); err != nil {
		return errors.New("is malformed: check its port and parameters, such as sslmode")
	}
	return nil
}

// checkPageURL accepts a URL to which "/cs_…" can be appended.
func checkPageURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return errors.New("must be http:// or https:// and a host, without a path, user, query or fragment")
	}
	return nil
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
