package devstack

import (
	"slices"
	"time"
)

// TemporalSecurity makes Temporal's frontend ask each client for a certificate and a signed token (JWT).
// Its fields are paths of files.
type TemporalSecurity struct {
	CA               string        // the authority of the clients' certificates and of the frontend's
	Certificate, Key string        // the frontend's, for 127.0.0.1
	TokenKeys        string        // a JSON Web Key Set: whose tokens are believed
	Client           []string      // the settings of a client that may do everything, NAME=value
	ConnectionAge    time.Duration // after which clients connect again; 0: Temporal's 5 minutes
}

// global adds the security to the global part of the server's configuration.
func (s *TemporalSecurity) global(settings map[string]any) map[string]any {
	if s == nil {
		return settings
	}
	settings["tls"] = map[string]any{"frontend": map[string]any{
		"server": map[string]any{
			"certFile": s.Certificate, "keyFile": s.Key, "requireClientAuth": true, "clientCaFiles": []string{s.CA},
		},
		"client": map[string]any{"serverName": "127.0.0.1", "rootCaFiles": []string{s.CA}},
	}}
	settings["authorization"] = map[string]any{
		"authorizer": "default", "claimMapper": "default", "permissionsClaimName": "permissions",
		"jwtKeyProvider": map[string]any{"keySourceURIs": []string{"file://" + s.TokenKeys}},
	}
	return settings
}

// environment returns the settings of a client of t.
func (t *Temporal) environment() []string {
	settings := []string{"TEMPORAL_ADDRESS=" + t.Address(), "TEMPORAL_NAMESPACE=" + t.Namespace()}
	if t.options.Security == nil {
		return settings
	}
	return slices.Concat(settings, t.options.Security.Client)
}
