package api

import (
	"fmt"
	"net/http"

	"example.com/checkout/api/action"
	"example.com/checkout/api/limit"
)

// actor returns the request's API key as the audit log has it.
func actor(r *http.Request) action.By {
	key := callerFrom(r.Context()).Key
	return action.By{
		Actor: fmt.Sprintf("API key “%s” …%s (%s)", key.Label, key.Last4, key.ID), Address: limit.RemoteIP(r),
	}
}
