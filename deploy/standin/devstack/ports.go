package devstack

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"example.com/checkout/storage/pgtemp"
)

// checkFree returns an error when something listens on the port. The error names flag, the command's option for
// another port.
func checkFree(port int, flag string) error {
	err := pgtemp.CheckFree(port)
	if errors.Is(err, pgtemp.ErrPortTaken) {
		return fmt.Errorf("%w: end the program that has it, or choose another port with %s", err, flag)
	}
	return err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
