package health

// Checks holds "ok" or "down" for each system that the service uses.
type Checks struct {
	PostgreSQL string `json:"postgresql"`
	Temporal   string `json:"temporal"`
}

// Checks returns the answers of the systems.
func (r Readiness) Checks() *Checks {
	return &Checks{describeCheck(r.PostgreSQL), describeCheck(r.Temporal)}
}

func describeCheck(err error) string {
	if err != nil {
		return "down"
	}
	return "ok"
}

// Message is the text of /readyz for a process that is not ready.
func (r Readiness) Message() string { return "The service is not ready: " + r.Fault + "." }

// OK is the body of /healthz, and with Checks that of /readyz.
type OK struct {
	Status string  `json:"status"`
	Checks *Checks `json:"checks,omitempty"`
}
