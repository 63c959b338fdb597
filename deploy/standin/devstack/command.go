package devstack

import (
	"os"
	"strings"

	"example.com/checkout/deploy/program/app"
)

// CommandVariable names an environment variable. If it is set, a program that calls RunCommand runs
// that command of the production binary instead of its own work. So a stack needs no second build.
const CommandVariable = "CHECKOUT_DEVSTACK_COMMAND"

// RunCommand must be the first call of a program that starts a Stack. If a stack started this process as its API or
// worker, RunCommand runs that command and ends the process. Otherwise it returns at once.
func RunCommand() {
	command := os.Getenv(CommandVariable)
	if command == "" {
		return
	}
	_ = os.Unsetenv(CommandVariable) // not a setting of the command; it fails only for a malformed name
	_ = os.Unsetenv(PostgresRepository)
	os.Exit(app.Run(strings.Fields(command)))
}
