package dashboard

import (
	"example.com/checkout/workflows/webhook"
)

// failureSentences say why an attempt failed, in English.
var failureSentences = map[webhook.ErrorKind]string{
	webhook.ErrorDNS:            "The server's name could not be looked up (DNS).",
	webhook.ErrorConnect:        "The server could not be connected to, or hung up before it answered.",
	webhook.ErrorTLS:            "The secure connection failed (TLS): look at the certificate.",
	webhook.ErrorTimeout:        "No answer came within 10 seconds.",
	webhook.ErrorBlockedAddress: "The server's address is one that nothing may be sent to.",
	webhook.ErrorHTTP:           "The answer was not HTTP.",
	webhook.ErrorInternal:       "This was our fault, not your server's.",
}

// why returns the reason of a failed attempt as a sentence.
func why(a webhook.Attempt) string {
	if a.ErrorKind == webhook.ErrorHTTP && a.StatusCode != 0 {
		return "The answer was not 2xx."
	}
	return failureSentences[a.ErrorKind]
}
