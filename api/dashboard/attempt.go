package dashboard

import (
	"fmt"
	"time"

	"example.com/checkout/workflows/webhook"
)

// failureWords say why an attempt failed, in English. The page shows the short words in place of a
// missing status code.
var failureWords = map[webhook.ErrorKind]struct{ short, sentence string }{
	webhook.ErrorDNS:            {"host name not found", "The server's name could not be looked up (DNS)."},
	webhook.ErrorConnect:        {"no connection", "The server could not be connected to, or hung up before it answered."},
	webhook.ErrorTLS:            {"TLS failed", "The secure connection failed (TLS): look at the certificate."},
	webhook.ErrorTimeout:        {"no answer in 10 s", "No answer came within 10 seconds."},
	webhook.ErrorBlockedAddress: {"address not allowed", "The server's address is one that nothing may be sent to."},
	webhook.ErrorHTTP:           {"not an HTTP answer", "The answer was not HTTP."},
	webhook.ErrorInternal:       {"our fault", "This was our fault, not your server's."},
}

// why returns the reason of a failed attempt as a sentence.
func why(a webhook.Attempt) string {
	if a.ErrorKind == webhook.ErrorHTTP && a.StatusCode != 0 {
		return "The answer was not 2xx."
	}
	return failureWords[a.ErrorKind].sentence
}

// shortly returns the short reason of a failed attempt without a status code.
func shortly(a webhook.Attempt) string { return failureWords[a.ErrorKind].short }

// attemptResult returns the outcome of an attempt in words.
func attemptResult(a webhook.Attempt) string {
	switch {
	case !a.Finished:
		return "under way"
	case a.StatusCode != 0:
		return fmt.Sprintf("answered %d", a.StatusCode)
	}
	return shortly(a)
}

// took formats a duration for people.
func took(d time.Duration) string {
	if d < time.Millisecond {
		return "under 1 ms"
	}
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
