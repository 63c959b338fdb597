package dashboard

import (
	"fmt"
	"strings"
	"time"

	"example.com/checkout/workflows/money"
)

func upperFirst(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// showTime formats a time.Time or *time.Time in UTC; "–" for nil.
func showTime(t any) string {
	switch t := t.(type) {
	case time.Time:
		return t.UTC().Format("2 Jan 2006 15:04:05")
	case *time.Time:
		if t != nil {
			return showTime(*t)
		}
	}
	return "–"
}

// showDuration formats a duration for people: "24 h", "90 min" or "20 s".
func showDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// showAgo returns the time from t to now in words, "never" for nil.
func showAgo(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	ago := now.Sub(*t)
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if n := int(ago / unit.length); n == 1 {
			return "1 " + unit.name + " ago"
		} else if n > 1 {
			return fmt.Sprintf("%d %ss ago", n, unit.name)
		}
	}
	return "just now"
}

// showMoney formats an amount in minor units with its currency, such as "1,234.50 EUR".
func showMoney(a money.Amount, c money.Currency) string {
	if a < 0 {
		return "−" + showMoney(-a, c)
	}
	whole, fraction, _ := strings.Cut(a.String(), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + "." + fraction + " " + string(c)
}

// showEstimate returns a duration in words, such as "about 3 minutes".
func showEstimate(d time.Duration) string {
	switch {
	case d < 2*time.Second:
		return "a moment"
	case d < 2*time.Minute:
		return fmt.Sprintf("about %d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("about %d minutes", int(d.Minutes()))
	}
	return fmt.Sprintf("about %d hours", int(d.Hours()))
}

// showElapsed formats a duration for people.
func showElapsed(d time.Duration) string {
	if d < time.Millisecond {
		return "under 1 ms"
	}
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
