package dashboard

import (
	"example.com/checkout/workflows/webhook"
)

// failureSentences say why an attempt failed, in English.
var failureSentences = map[webhook.ErrorKind]string{
	webhook.ErrorDNS:            "The server's name could not be looked up (DNS).",
	webhook.ErrorConnect:        "The connection to the server failed, or the server closed it before answering.",
	webhook.ErrorTLS:            "The secure connection failed (TLS): check the certificate.",
	webhook.ErrorTimeout:        "There was no answer within 10 seconds.",
	webhook.ErrorBlockedAddress: "The server's address is not allowed.",
	webhook.ErrorHTTP:           "The answer was not HTTP.",
	webhook.ErrorInternal:       "This was an error of ours, not your server's.",
}

// failureReason returns the reason of a failed attempt as a sentence.
func failureReason(a webhook.Attempt) string {
	if a.ErrorKind == webhook.ErrorHTTP && a.StatusCode != 0 {
		return "The status code was not 2xx."
	}
	return failureSentences[a.ErrorKind]
}
