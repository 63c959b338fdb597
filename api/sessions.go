package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// createdSession is the answer to a create. secret is the session's own webhook secret, "" when a
// registration's secret signs for webhook_url or there is none.
type createdSession struct {
	checkout.Session
	secret string
}

// MarshalJSON writes the session object with webhook_signed_by and webhook_secret at its end. No other answer
// has them.
func (c createdSession) MarshalJSON() ([]byte, error) {
	object, err := checkout.EncodeJSON(c.Session)
	if err != nil {
		return nil, err
	}
	end := struct {
		SignedBy *string `json:"webhook_signed_by"`
		Secret   string  `json:"webhook_secret,omitempty"`
	}{Secret: c.secret}
	if c.WebhookURL != nil && c.secret == "" {
		end.SignedBy = c.SigningEndpoint
	}
	more, err := json.Marshal(end)
	if err != nil {
		return nil, err
	}
	return append(append(object[:len(object)-1], ','), more[1:]...), nil
}

// sessionsPath comes before a session's id.
const sessionsPath = "/v1/checkout/"

// createSession serves POST /v1/checkout. Source: api/interface.md, "Create a session".
func (s *Server) createSession(r *http.Request, n storage.NewSession) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	if caller.Merchant.Suspended.Has(merchant.CapabilityPayments) {
		return 0, nil, checkout.ErrMerchantSuspended
	}
	if err := s.checkPayout(ctx, n.Session, caller.Merchant.Fee()); err != nil {
		return 0, nil, err
	}

	secret := newSecret(ctx)
	if n.WebhookURL != nil {
		endpoint, err := s.Store.Webhooks.SigningEndpoint(ctx, n.Owner, *n.WebhookURL)
		if err != nil {
			return 0, nil, err
		}
		if endpoint != "" {
			n.SigningEndpoint = &endpoint
		} else {
			n.Secret = secret
		}
	}

	got, err := s.Store.Sessions.CreateSession(ctx, n, s.Runs.StartSession)
	if err != nil {
		return 0, nil, s.orderIDRefusal(ctx, caller, err)
	}

	exchangeFrom(ctx).sessionID = got.ID
	s.fetchPictures(ctx, got)

	if got.SigningEndpoint == nil || *got.SigningEndpoint != got.OwnEndpoint() {
		secret = "" // a registration's secret signs; a repeat may find one from the first try
	}
	return http.StatusCreated, located{sessionsPath + got.ID, createdSession{s.withURL(got), secret}}, nil
}

const (
	// picturesAtOnce is how many runs one create starts at the same time.
	picturesAtOnce = 10
	// picturesWait is how long a create waits for them: a slow Temporal must not hold up the answer.
	picturesWait = 2 * time.Second
)

// fetchPictures starts the runs that fetch the session's new pictures. Reconcile starts what fails here.
func (s *Server) fetchPictures(ctx context.Context, session checkout.Session) {
	if len(session.Pictures) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, picturesWait)
	defer cancel()
	var starts errgroup.Group
	starts.SetLimit(picturesAtOnce)
	for _, p := range session.Pictures {
		starts.Go(func() error {
			if err := s.Runs.Start(ctx, session.Owner.Ref(p.ID)); err != nil {
				s.Log.WarnContext(ctx, "picture left to Reconcile", "picture_id", p.ID, "error", err)
			}
			return nil
		})
	}
	_ = starts.Wait() // each failure is logged
}

// newSession reads the body of a create. The error has all faults of the body.
func (s *Server) newSession(r *http.Request) (n storage.NewSession, err error) {
	f, err := readObject(r, "amount", "currency", "payout_currency", "customer_email", "metadata",
		"redirect_url", "cancel_url", "description", "locale", "line_items", "webhook_url", "livemode")
	if err != nil {
		return n, err
	}
	ctx, caller := r.Context(), callerFrom(r.Context())
	mode := caller.Key.Mode
	n.Lifetime = checkout.SessionLifetime
	if !mode.Live() {
		n.Lifetime = s.SessionLifetime
	}

	if value, ok := f.optional("livemode"); ok {
		switch value.Kind() {
		case 't', 'f':
			// A 403 comes before the faults of the body.
			if live := value.Kind() == 't'; live != mode.Live() {
				return n, forbidden(fmt.Sprintf("A %s key cannot create a session with livemode %t.", mode, live))
			}
		default:
			f.add("livemode", "must be true or false")
		}
	}

	n.Session = checkout.Session{
		Ref:            caller.Merchant.Owner(mode).Ref(newID(ctx, checkout.PrefixSession)),
		Amount:         f.amount(),
		Currency:       requiredChoice(f, "currency", money.Currencies),
		PayoutCurrency: requiredChoice(f, "payout_currency", money.PayoutCurrencies),
		CustomerEmail:  f.email("customer_email"),
		MaxAttempts:    caller.Merchant.PaymentAttempts,
	}

	var orderID *string
	if fee := caller.Merchant.Fee(); n.Amount > 0 && fee.TakesAll(n.Amount) {
		f.add("amount", fmt.Sprintf("must exceed the fee of %s per payment", fee))
	}

	n.Metadata, orderID = f.metadata()
	if caller.Merchant.OrderIDGuard {
		n.OrderID = orderID
	}

	n.RedirectURL, n.CancelURL = f.pageAddress("redirect_url", mode), f.pageAddress("cancel_url", mode)
	n.Description = f.pageText("description", checkout.MaxDescription)
	n.Locale = optionalChoiceOf(f, "locale", checkout.Locales)
	n.LineItems = f.lineItems(n.Amount, mode)
	s.checkPictures(ctx, f, n.LineItems, mode)
	n.WebhookURL = s.receiver(ctx, f, "webhook_url", mode, false)

	if err := ctx.Err(); err != nil {
		return n, fmt.Errorf("check webhook_url: %w", err)
	}
	return n, f.err()
}

// checkPictures refuses pictures at an IP address that the worker must not reach. Where a name leads, the worker finds
// out: a lookup for each item would take too long.
func (s *Server) checkPictures(ctx context.Context, f fields, items []checkout.LineItem, mode checkout.Mode) {
	for i, item := range items {
		if item.ImageURL == nil {
			continue
		}
		host := webhook.HostOf(*item.ImageURL)
		if _, err := netip.ParseAddr(host); err != nil {
			continue
		}
		if err := s.CheckAddress(ctx, mode, host); err != nil {
			f.add(fmt.Sprintf("line_items[%d].image_url", i), err.Error()) // CheckAddress writes its errors for merchants
		}
	}
}

// receiver reads a URL that the service will send events to.
func (s *Server) receiver(ctx context.Context, f fields, name string, mode checkout.Mode, required bool) *string {
	read := f.optionalText
	if required {
		read = f.requiredText
	}
	text, ok := read(name)
	if !ok {
		return nil
	}
	if u, ok := f.address(name, text, mode); ok {
		if err := s.CheckAddress(ctx, mode, u.Hostname()); err != nil {
			f.add(name, err.Error()) // CheckAddress writes its errors for merchants
		}
	}
	return &text
}

// amount reads a required JSON number; see money.ParseAmount.
func (f fields) amount() money.Amount {
	value, ok := f.required("amount")
	if !ok {
		return 0
	}
	return f.amountIn(value, money.ParseAmount)
}

// amountIn reads the value of amount. parse writes its errors for merchants.
func (f fields) amountIn(value jsontext.Value, parse func(token string) (money.Amount, error)) money.Amount {
	const name = "amount"
	switch value.Kind() {
	case '0':
		amount, err := parse(string(value))
		if err != nil {
			f.add(name, err.Error())
		}
		return amount
	case '"': // libraries for decimals write strings
		f.add(name, quotedAmount(parse(unquote(value))))
	default:
		f.add(name, money.ErrAmountFormat.Error())
	}
	return 0
}

// quotedAmount returns the fault for an amount sent as a string. err is why the string holds none.
func quotedAmount(amount money.Amount, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("must be a number, not a string; send %s without quotes", amount)
	case errors.Is(err, money.ErrAmountFormat):
		return err.Error()
	}
	return "must be a number, not a string; " + err.Error()
}

// noRateFor is how long there may be no exchange rate before no session is created that needs one. A shorter gap
// mostly ends before the customer pays.
const noRateFor = 2 * time.Minute

// checkPayout refuses a session that cannot be paid or paid out: no live mode, a currency without a
// treasury, no payout address on a real chain, no exchange rate, or an amount that is too small or too large.
// The sandbox pays everything.
func (s *Server) checkPayout(ctx context.Context, n checkout.Session, fee merchant.Fee) error {
	offered := s.Payouts[n.Mode]
	switch {
	case offered == nil && n.Mode.Live():
		return forbidden("Live mode is not available until a live card acquirer is configured.")
	case offered == nil:
		return nil
	case !slices.Contains(offered.Currencies, n.PayoutCurrency):
		return forbidden(fmt.Sprintf("%s mode is not available for %s.", capital(n.Mode), n.PayoutCurrency))
	}
	ok, err := s.Store.Merchants.HasPayoutAddress(ctx, n.Owner, n.PayoutCurrency)
	if err != nil {
		return err
	}
	if !ok {
		return forbidden(
			fmt.Sprintf("%s mode is not activated: there is no payout address for %s.", capital(n.Mode), n.PayoutCurrency),
		)
	}
	if since := offered.NoQuoteSince(n.Currency, n.PayoutCurrency); !since.IsZero() && time.Since(since) > noRateFor {
		return checkout.ErrNoRate
	}
	return offered.checkBounds(n, fee)
}

// checkBounds refuses an amount that, after our fee, is too small or too large to be paid out.
func (p *Payouts) checkBounds(n checkout.Session, fee merchant.Fee) error {
	bounds, known := p.Bounds(n.Currency, n.PayoutCurrency)
	if !known {
		return checkout.ErrPaymentNotPossible
	}
	var found faults
	least, ok := fee.LeastFor(bounds.Least)
	switch most := fee.MostFor(bounds.Most); {
	case !ok:
		found.add("amount", fmt.Sprintf("cannot currently be paid out in %s: network fees are too high for any amount",
			n.PayoutCurrency))
	case n.Amount < least:
		found.add("amount", fmt.Sprintf("must currently be at least %s %s for %s, because of the network fee",
			least, n.Currency, n.PayoutCurrency))
	case n.Amount > most:
		found.add("amount", fmt.Sprintf("must currently be at most %s %s, because of the payout limit", most, n.Currency))
	}
	return found.err()
}

// capital returns the mode as the first word of a sentence.
func capital(mode checkout.Mode) string {
	if mode.Live() {
		return "Live"
	}
	return "Test"
}

// orderIDRefusal turns storage.OrderIDInUseError into the merchant's answer. A session that has
// expired or failed is about to free its order id. The merchant gets a 503 then and tries again, so
// that no customer is sent to a page that cannot be paid.
func (s *Server) orderIDRefusal(ctx context.Context, caller storage.Caller, err error) error {
	var taken *storage.OrderIDInUseError
	if !errors.As(err, &taken) || taken.SessionID == "" {
		return err
	}
	holder, readErr := s.Store.Sessions.Session(ctx, caller.Key.Owner.Ref(taken.SessionID))
	if readErr != nil {
		return readErr
	}
	exchangeFrom(ctx).sessionID = holder.ID
	if holder.Status == checkout.StatusExpired || holder.Status == checkout.StatusFailed {
		return unavailable(err)
	}
	return orderIDInUse(s.withURL(holder))
}

// listSessions serves GET /v1/checkout, newest first.
func (s *Server) listSessions(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	q := readQuery(r, "status", orderIDKey, "transaction", "customer_email", metadataFilter)
	filter := storage.SessionFilter{
		Status:      optionalChoice(q, "status", checkout.Statuses),
		Transaction: optionalID(q, "transaction", checkout.PrefixTransaction),
		Metadata:    q.metadata(),
	}
	if text, ok := q.optionalText("customer_email"); ok {
		if !checkout.ValidEmail(text) {
			q.add("customer_email", "must be an e-mail address")
		}
		filter.CustomerEmail = text
	}
	if text, ok := q.optionalText(orderIDKey); ok {
		if text == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) ||
			utf8.RuneCountInString(text) > maxMetadataValue {
			q.add(orderIDKey, fmt.Sprintf("must be a metadata.order_id: 1 to %d characters", maxMetadataValue))
		}
		filter.OrderID = text
	}
	return answerList(q, checkout.PrefixSession, func(p pg.Page) ([]checkout.Session, error) {
		if err := q.checkMetadataRange(filter, p); err != nil {
			return nil, err
		}
		found, err := s.Store.Sessions.Sessions(ctx, caller.Key.Owner, filter, p)
		for i := range found {
			found[i] = s.withURL(found[i])
		}
		return found, err
	})
}

// getSession serves GET /v1/checkout/{id}. Another merchant's session is a 404.
func (s *Server) getSession(_ *http.Request, session checkout.Session) (int, any, error) {
	return http.StatusOK, s.withURL(session), nil
}

// session reads the session in the path.
func (s *Server) session(r *http.Request) (checkout.Session, error) {
	session, err := byID(checkout.PrefixSession, s.Store.Sessions.Session)(r)
	exchangeFrom(r.Context()).sessionID = session.ID
	return session, err
}

func (s *Server) withURL(session checkout.Session) checkout.Session {
	session.URL = checkout.PageURL(s.CheckoutURL, session.ID)
	return session
}

// listTransactions serves GET /v1/transactions, newest first. Like a session's timeline it has decided payments
// only.
func (s *Server) listTransactions(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "session")
	filter := storage.TransactionFilter{
		Status:    optionalChoice(q, "status", checkout.DecidedTransactions),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixTransaction, filter, s.Store.Sessions.Transactions)
}
