package dashboard

import (
	"embed"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages maps names to templates. Each file defines "main" for layout.html. parts.html has the parts
// that several files use.
var pages = func() map[string]*template.Template {
	shared := template.New("").Funcs(functions)
	parse(shared, "layout")
	parse(shared, "parts")
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // embedded
	}
	m := map[string]*template.Template{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if name == "layout" || name == "parts" {
			continue
		}
		m[name] = template.Must(shared.Clone())
		parse(m[name], name)
	}
	return m
}()

// parse adds a file's templates to t.
func parse(t *template.Template, name string) {
	template.Must(t.ParseFS(templateFiles, "templates/"+name+".html"))
}

var functions = template.FuncMap{
	"asset":  assetURL,
	"time":   showTime,
	"money":  showMoney,
	"title":  upperFirst,
	"words":  func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
	"roles":  func() []merchant.Role { return merchant.Roles },
	"string": func(v any) string { return fmt.Sprint(v) },
	"now":    time.Now,
	"ago":    func(t *time.Time) string { return showAgo(t, time.Now()) },

	"currencies":       func() []money.Currency { return money.Currencies },
	"payoutCurrencies": func() []money.PayoutCurrency { return money.PayoutCurrencies },
	"payoutStatuses":   func() []checkout.PayoutStatus { return checkout.PayoutStatuses },

	"balanceTypes": func() []checkout.BalanceTransactionType { return checkout.BalanceTransactionTypes },

	"refundReasons":   func() []checkout.RefundReason { return checkout.RefundReasons },
	"refundStatuses":  func() []checkout.RefundStatus { return checkout.RefundStatuses },
	"refundFailure":   refundFailure,
	"disputeStatuses": func() []checkout.DisputeStatus { return checkout.DisputeStatuses },
	"kept":            showDeduction,

	"sessionStatuses": func() []checkout.Status { return checkout.Statuses },
	"tableStatuses": func() []checkout.Status {
		return []checkout.Status{
			checkout.StatusCompleted,
			checkout.StatusFailed,
			checkout.StatusExpired,
			checkout.StatusPending,
		}
	},

	"why":      failureReason,
	"result":   webhook.Attempt.Outcome,
	"duration": showDuration,
	"took":     showElapsed,
	"lasts":    showEstimate,
	"means":    webhook.EventType.Words,
	"events":   func() []webhook.EventType { return webhook.EventTypes },
	"statuses": func() []string { return deliveryStates },
	"dict":     dict,
}

// dict makes one value of several, for a template with one argument. pairs alternates names and
// values.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		m[fmt.Sprint(pair[0])] = pair[1]
	}
	return m
}
