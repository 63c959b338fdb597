package listen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// state is kept in a file between runs: the secret and the position in the feed. One process at a time has it open.
type state struct {
	Version int       `json:"version"`
	Secret  string    `json:"secret"`
	Began   time.Time `json:"began,omitzero"`  // zero until setStart has decided where to begin
	From    time.Time `json:"from,omitzero"`   // earlier events are not forwarded
	After   string    `json:"after,omitempty"` // the last event read in the feed; "" before the first one

	path string
	lock *os.File
}

// stateVersion must change with every change that an older program could not read.
const stateVersion = 1

// openState locks the file and reads it, or makes one with a new secret. It never changes a malformed file.
func openState(path string) (*state, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the user's own choice
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	s := &state{path: path, lock: lock}
	// The kernel releases the lock when the process ends, even after a kill.
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = fmt.Errorf("another listen uses the state file %s (%w): end it, or set another file with --state", path, err)
	} else {
		err = s.load()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *state) load() error {
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.Version, s.Secret = stateVersion, webhook.NewSecret()
		return s.save() // save the secret before it is used
	}
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	if json.Unmarshal(text, s) != nil || s.Version != stateVersion || !strings.HasPrefix(s.Secret, "whsec_") ||
		s.After != "" && !checkout.IsID(checkout.PrefixEvent, s.After) {
		return fmt.Errorf("the state file %s is not as this listen writes it. It was left as it is. Put it right, or move "+
			"it away: then listen makes a new secret and begins with the events from then on, or from --since", s.path)
	}
	return s.save() // find out that the file is not writable before anything is forwarded
}

// save replaces the file in one step. After a crash at any moment, either the old or the new file is there, complete.
func (s *state) save() error {
	text, err := json.MarshalIndent(s, "", "  ") // #nosec G117 -- the secret is kept in this file on purpose
	if err != nil {
		return err
	}
	next := s.path + ".new"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- the user's own choice
	if err == nil {
		_, err = file.Write(append(text, '\n'))
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		return fmt.Errorf("how far listen has come cannot be noted, so it ends: state file: %w", err)
	}
	return nil
}

// close releases the lock.
func (s *state) close() { _ = s.lock.Close() }
