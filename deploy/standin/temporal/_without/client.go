package client

import (
	"errors"
	"net/http"
)

// NewAwsHttpClient returns no client without an error when requests are not signed.
func NewAwsHttpClient(config ESAWSRequestSigningConfig) (*http.Client, error) {
	if config.Enabled {
		return nil, errors.New("signing requests for AWS is left out of the local stack's build of Temporal")
	}
	return nil, nil
}
