package devstack

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"example.com/checkout/storage/pgtemp"
)

// The names of Temporal's databases.
const (
	temporalDatabase   = "temporal"
	visibilityDatabase = "temporal_visibility"
)

// sqlPlugin is the name by which Temporal knows PostgreSQL through pgx.
const sqlPlugin = "postgres12_pgx"

// temporalPorts are the ports of Temporal's four services. They are stored in a file, because after a crash the list of
// members in the database still names the old ports. A server on the same ports takes the place of the old members.
type temporalPorts struct {
	Frontend   int            `json:"frontend"`
	Internal   map[string]int `json:"internal"`   // gRPC, by service
	Membership map[string]int `json:"membership"` // by service
}

var temporalServices = []string{"frontend", "history", "matching", "worker"}

// internalFrontend serves Temporal's own worker, which has no token, when the frontend asks for one.
const internalFrontend = "internal-frontend"

func (o TemporalOptions) services() []string {
	if o.Security == nil {
		return temporalServices
	}
	return append(slices.Clone(temporalServices), internalFrontend)
}

// choosePorts returns the ports of the last start if they are free, otherwise new ports. frontend
// is the port that the caller wants; 0 means any.
func choosePorts(path string, services []string, frontend int) (temporalPorts, error) {
	var ports temporalPorts
	if content, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(content, &ports); err == nil && ports.free(services, frontend) {
			return ports, nil
		}
	}
	free, err := pgtemp.FreePorts(2 * len(services))
	if err != nil {
		return temporalPorts{}, err
	}
	ports = temporalPorts{Frontend: free[0], Internal: map[string]int{}, Membership: map[string]int{}}
	for i, service := range services {
		ports.Internal[service], ports.Membership[service] = free[2*i], free[2*i+1]
	}
	if frontend != 0 {
		ports.Frontend, ports.Internal["frontend"] = frontend, frontend
	}
	content, err := json.Marshal(ports)
	if err != nil {
		return temporalPorts{}, err
	}
	return ports, os.WriteFile(path, content, 0o600)
}

// free reports whether the ports are complete and free, and the frontend's port is the one that the caller wants.
func (p temporalPorts) free(services []string, frontend int) bool {
	if frontend != 0 && p.Frontend != frontend {
		return false
	}
	for _, service := range services {
		for _, port := range []int{p.Internal[service], p.Membership[service]} {
			if port == 0 || pgtemp.CheckFree(port) != nil {
				return false
			}
		}
	}
	return true
}

// writeTemporalConfig writes the server's configuration and returns its path. The server reads YAML. The file is JSON,
// which is valid YAML, so that no value needs quoting by hand, in particular not the password.
func writeTemporalConfig(o TemporalOptions, ports temporalPorts, admin *url.URL) (string, error) {
	dynamic := filepath.Join(o.Dir, "dynamic.yaml")
	if err := writeJSON(dynamic, dynamicConfig(o)); err != nil {
		return "", err
	}
	password, _ := admin.User.Password()
	store := func(database string, connections int) map[string]any {
		return map[string]any{"sql": map[string]any{
			"pluginName":        sqlPlugin,
			"databaseName":      database,
			"connectAddr":       hostPort(admin),
			"connectProtocol":   "tcp",
			"user":              admin.User.Username(),
			"password":          password,
			"connectAttributes": connectAttributes(admin),
			"maxConns":          connections,
			"maxIdleConns":      connections,
			"maxConnLifetime":   "1h",
		}}
	}
	services := map[string]any{}
	for _, service := range o.services() {
		services[service] = map[string]any{"rpc": map[string]any{
			"grpcPort":       ports.Internal[service],
			"membershipPort": ports.Membership[service],
			"bindOnIP":       "127.0.0.1",
		}}
	}
	path := filepath.Join(o.Dir, "temporal.yaml")
	settings := map[string]any{
		"log": map[string]any{"stdout": true, "level": "warn"},
		"persistence": map[string]any{
			"defaultStore":     "default",
			"visibilityStore":  "visibility",
			"numHistoryShards": 4, // one process needs no more, and the number can never be changed
			// Each of the four services opens this many connections; PostgreSQL allows 300 for everything.
			"datastores": map[string]any{"default": store(temporalDatabase, 20), "visibility": store(visibilityDatabase, 8)},
		},
		"global":   o.global(),
		"services": services,
		"clusterMetadata": map[string]any{
			"enableGlobalNamespace":    false,
			"failoverVersionIncrement": 10,
			"masterClusterName":        "active",
			"currentClusterName":       "active",
			"clusterInformation": map[string]any{"active": map[string]any{
				"enabled":                true,
				"initialFailoverVersion": 1,
				"rpcName":                "frontend",
				"rpcAddress":             loopback(ports.Frontend),
			}},
		},
		"dcRedirectionPolicy": map[string]any{"policy": "noop"},
		"dynamicConfigClient": map[string]any{"filepath": dynamic, "pollInterval": "10s"},
	}
	if o.Security == nil {
		settings["publicClient"] = map[string]any{"hostPort": loopback(ports.Frontend)}
	}
	return path, writeJSON(path, settings)
}

// global returns the part of the configuration that all services share.
func (o TemporalOptions) global() map[string]any {
	settings := map[string]any{"membership": map[string]any{"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"}}
	if o.MetricsAddress != "" {
		settings["metrics"] = map[string]any{"prometheus": map[string]any{"listenAddress": o.MetricsAddress}}
	}
	return o.Security.global(settings)
}

// dynamicConfig returns the settings that differ from the server's defaults. Source of names and
// defaults: Temporal 1.32, common/dynamicconfig/constants.go.
func dynamicConfig(o TemporalOptions) map[string]any {
	always := func(value any) []any { return []any{map[string]any{"value": value}} }
	settings := map[string]any{
		// Deliveries carry the merchant's id as fairness key, so one merchant's backlog does not hold up the others.
		"matching.enableFairness": always(true),
		// One process holds all partitions of a queue. Several partitions would only forward tasks
		// and polls to each other.
		"matching.numTaskqueueReadPartitions":  always(1),
		"matching.numTaskqueueWritePartitions": always(1),
		// A load test would only find the default limits (2400 per second for a namespace).
		"frontend.rps":                     always(20000),
		"frontend.namespaceRPS":            always(20000),
		"frontend.namespaceCount":          always(20000), // long polls at the same time
		"frontend.namespaceRPS.visibility": always(1000),
		// The frontend counts its own calls to the history and matching services, which run in the same process.
		"history.rps":  always(20000),
		"matching.rps": always(20000),
	}
	if o.Security != nil && o.Security.ConnectionAge != 0 {
		settings["frontend.keepAliveMaxConnectionAge"] = always(o.Security.ConnectionAge.String())
	}
	return settings
}

// hostPort returns the host:port of a postgres:// URL; with several servers host:port,host:port.
func hostPort(admin *url.URL) string {
	if admin.Port() == "" {
		return admin.Host + ":5432"
	}
	return admin.Host
}

// connectAttributes returns the connection parameters of a postgres:// URL, sslmode and the like.
func connectAttributes(admin *url.URL) map[string]string {
	attributes := map[string]string{}
	for name, values := range admin.Query() {
		attributes[name] = values[0]
	}
	return attributes
}

// writeJSON replaces a file. Only this user can read it, because the configuration holds a password.
func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, slices.Concat(content, []byte("\n")), 0o600)
}
