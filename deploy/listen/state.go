package listen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// state is what is known between runs: the secret and how far listen has come.
type state struct {
	Version  int       `json:"version"`
	Secret   string    `json:"secret"`
	Began    time.Time `json:"began,omitzero"`     // zero until it is known where to begin
	From     time.Time `json:"from,omitzero"`      // events created earlier are not forwarded
	Position string    `json:"position,omitempty"` // the greatest id that was settled
	Recent   []string  `json:"recent,omitempty"`   // ids settled since horizon, in order
}

// stateVersion changes when an older program could not read the file.
const stateVersion = 1

// startAt forgets what was settled: events created at t or later are new. Zero
// is the beginning of all events.
func (s *state) startAt(t time.Time) {
	s.From, s.Position, s.Recent = t, "", nil
	if !t.IsZero() {
		s.Position = firstID(t)
	}
}

// horizon is the id before which everything is settled, lookBack before
// Position; "" when nothing was settled yet.
func (s *state) horizon() string {
	at, ok := checkout.IDTime(checkout.PrefixEvent, s.Position)
	if !ok {
		return ""
	}
	return firstID(at.Add(-lookBack))
}

// settled reports whether the event of an id after horizon needs nothing more.
func (s *state) settled(id string) bool {
	_, ok := slices.BinarySearch(s.Recent, id)
	return ok
}

// settle notes that an event was forwarded, given up or passed over, and with it
// all that are older by more than lookBack.
func (s *state) settle(id string) {
	if i, ok := slices.BinarySearch(s.Recent, id); !ok {
		s.Recent = slices.Insert(s.Recent, i, id)
	}
	s.Position = max(s.Position, id)
	old, _ := slices.BinarySearch(s.Recent, s.horizon())
	s.Recent = slices.Delete(s.Recent, 0, old)
}

var secretShape = regexp.MustCompile(`^whsec_[0-9a-f]{64}$`)

// check says what in a file cannot have been written by listen.
func (s *state) check() error {
	isID := func(id string) bool { return checkout.IsID(checkout.PrefixEvent, id) }
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("its version is %d and not %d", s.Version, stateVersion)
	case !secretShape.MatchString(s.Secret):
		return errors.New("its secret is not whsec_ and 64 hexadecimal digits")
	case s.Position != "" && !isID(s.Position):
		return errors.New("its position is not an event's id")
	case !slices.IsSorted(s.Recent) || slices.ContainsFunc(s.Recent, func(id string) bool { return !isID(id) }):
		return errors.New("its recent events are not ids in order")
	}
	return nil
}

// stateFile is a state and the file that keeps it. One process at a time has it.
type stateFile struct {
	state
	path  string
	lock  *os.File
	isNew bool
}

// openState locks the file and reads it, or makes one with a new secret. A file
// that cannot be understood stays as it is.
func openState(path string) (*stateFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the user's own choice
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	f := &stateFile{path: path, lock: lock}
	if err := lockFile(lock); err != nil {
		f.close()
		if errors.Is(err, errLocked) {
			return nil, fmt.Errorf("another listen is running with the state file %s: end it, or give this one a file of its own with --state", path)
		}
		return nil, fmt.Errorf("lock state file: %w", err)
	}
	if err := f.load(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *stateFile) load() error {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.state, f.isNew = state{Version: stateVersion, Secret: webhook.NewSecret()}, true
		return f.save() // now, not after the secret is in use
	}
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	if json.Unmarshal(text, &f.state) != nil {
		err = errors.New("it is not the JSON that listen writes") // whose own words could quote the secret
	} else {
		err = f.check()
	}
	if err != nil {
		return fmt.Errorf("the state file %s cannot be used: %w. It was left as it is. Put it right, or move it away: "+
			"then listen makes a new secret and begins with the events from then on, or from --since", f.path, err)
	}
	return f.save() // a file that cannot be written is told before anything is forwarded
}

// save replaces the file in one step: whenever this process or the computer
// dies, the old or the new one is there whole.
func (f *stateFile) save() error {
	text, err := json.MarshalIndent(f.state, "", "  ") // #nosec G117 -- the secret is kept in this file on purpose
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	if err := f.replace(append(text, '\n')); err != nil {
		return fmt.Errorf("how far listen has come cannot be noted, so it ends: state file: %w", err)
	}
	return nil
}

func (f *stateFile) replace(text []byte) error {
	next := f.path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// O_EXCL: never through a link that somebody else put there.
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the user's own choice
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, f.path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.path))
}

// close gives the file to others.
func (f *stateFile) close() { _ = f.lock.Close() }
