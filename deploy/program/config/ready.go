package config

// Ready holds the settings of `checkout health`: where an API and a worker say whether they are ready. It needs no
// secret, so that a job without any can ask.
type Ready struct {
	APIAddress    string `env:"CHECKOUT_API_ADDRESS" envDefault:"127.0.0.1:8080"`
	HealthAddress string `env:"CHECKOUT_HEALTH_ADDRESS" envDefault:"127.0.0.1:8084"`
}

// LoadReady reads environment as Load does, with errors in the same form.
func LoadReady(environment []string) (Ready, error) {
	var r Ready
	err := load(environment, &r, func(_ map[string]string, report func(string, error)) {
		report("CHECKOUT_API_ADDRESS", checkAddress(r.APIAddress))
		report("CHECKOUT_HEALTH_ADDRESS", checkAddress(r.HealthAddress))
	})
	return r, err
}
