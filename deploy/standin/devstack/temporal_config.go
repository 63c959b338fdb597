package devstack

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"text/template"
	"time"

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

//go:embed temporal.yaml dynamic.yaml ui.yaml
var configFiles embed.FS

var configs = template.Must(template.New("").Funcs(template.FuncMap{"json": func(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}}).ParseFS(configFiles, "*.yaml"))

// writeConfig fills the template of that name. Only this user can read the file, because it may hold a password.
func writeConfig(path, name string, values any) error {
	var filled bytes.Buffer
	if err := configs.ExecuteTemplate(&filled, name, values); err != nil {
		return err
	}
	return os.WriteFile(path, filled.Bytes(), 0o600)
}

// A sqlStore is one of Temporal's databases in its configuration.
type sqlStore struct {
	Plugin, Database, Address, User, Password string
	Attributes                                map[string]string
	Connections                               int
}

// writeTemporalConfig writes the server's configuration and returns its path.
func writeTemporalConfig(o TemporalOptions, ports temporalPorts, admin *url.URL) (string, error) {
	path, dynamic := filepath.Join(o.Dir, "temporal.yaml"), filepath.Join(o.Dir, "dynamic.yaml")
	if err := writeConfig(dynamic, "dynamic.yaml", o); err != nil {
		return "", err
	}
	password, _ := admin.User.Password()
	store := sqlStore{
		Plugin: sqlPlugin, Database: temporalDatabase, Address: hostPort(admin), User: admin.User.Username(),
		Password: password, Attributes: connectAttributes(admin), Connections: 20,
	}
	visibility := store
	visibility.Database, visibility.Connections = visibilityDatabase, 8
	return path, writeConfig(path, "temporal.yaml", map[string]any{
		"Options": o, "Services": o.services(), "Ports": ports, "Frontend": loopback(ports.Frontend),
		"Default": store, "Visibility": visibility, "Dynamic": dynamic,
	})
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

// TemporalSecurity makes Temporal's frontend ask each client for a certificate and a signed token (JWT).
// Its fields are paths of files.
type TemporalSecurity struct {
	CA               string        // the authority of the clients' certificates and of the frontend's
	Certificate, Key string        // the frontend's, for 127.0.0.1
	TokenKeys        string        // a JSON Web Key Set: whose tokens are believed
	Client           []string      // the settings of a client that may do everything, NAME=value
	ConnectionAge    time.Duration // after which clients connect again; 0: Temporal's 5 minutes
}

// environment returns the settings of a client of t.
func (t *Temporal) environment() []string {
	settings := []string{"TEMPORAL_ADDRESS=" + t.Address(), "TEMPORAL_NAMESPACE=" + t.Namespace()}
	if t.options.Security == nil {
		return settings
	}
	return slices.Concat(settings, t.options.Security.Client)
}
