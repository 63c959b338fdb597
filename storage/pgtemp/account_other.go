//go:build !linux

package pgtemp

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// An account says as whom the programs of PostgreSQL run: outside Linux always as this user.
type account struct{}

func accountFor(_, _ string) (account, error) {
	if os.Geteuid() == 0 {
		return account{}, errors.New("PostgreSQL refuses to run as root: run as an ordinary user")
	}
	return account{}, nil
}

func (account) apply(*exec.Cmd) {}

func (account) own(string) error { return nil }

// servesCluster reports whether process pid is a PostgreSQL server. That it serves this very cluster follows from the
// caller: pid stands in the cluster's postmaster.pid.
func servesCluster(pid int, _ string) bool {
	out, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres")
}
