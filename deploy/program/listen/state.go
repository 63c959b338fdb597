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

	"golang.org/x/sys/unix"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// state is kept between runs: the secret and the position in the feed of events.
type state struct {
	Version  int       `json:"version"`
	Secret   string    `json:"secret"`
	Began    time.Time `json:"began,omitzero"`     // zero until begin has decided where to begin
	From     time.Time `json:"from,omitzero"`      // earlier events are not forwarded
	Position string    `json:"position,omitempty"` // the greatest settled id
	Recent   []string  `json:"recent,omitempty"`   // ids settled since horizon, in order
	After    string    `json:"after,omitempty"`    // the last event read in the feed; "" before the first one
	Floor    string    `json:"floor,omitempty"`    // events with lesser ids were settled before the last seek
}

// stateVersion must change with every change that an older program could not read.
const stateVersion = 1

// startAt forgets the settled events: every event created at t or later is new again. A zero t
// means all events.
func (s *state) startAt(t time.Time) {
	s.From, s.Position, s.Recent, s.After, s.Floor = t, "", nil, "", ""
	if !t.IsZero() {
		s.Position = firstID(t)
	}
}

// horizon returns the id before which a seek takes every event as settled: lookBack before Position, or "" when
// no event was settled yet.
func (s *state) horizon() string {
	at, ok := checkout.IDTime(checkout.PrefixEvent, s.Position)
	if !ok {
		return ""
	}
	return firstID(at.Add(-lookBack))
}

// settled reports whether the event with this id was settled before the feed came to it.
func (s *state) settled(id string) bool {
	_, ok := slices.BinarySearch(s.Recent, id)
	return ok || id < s.Floor
}

// settle notes that an event was forwarded, given up or passed over. It remembers the ids of the last lookBack, for
// a seek.
func (s *state) settle(id string) {
	if i, ok := slices.BinarySearch(s.Recent, id); !ok {
		s.Recent = slices.Insert(s.Recent, i, id)
	}
	s.Position = max(s.Position, id)
	old, _ := slices.BinarySearch(s.Recent, s.horizon())
	s.Recent = slices.Delete(s.Recent, 0, old)
}

// read settles the next event of the feed.
func (s *state) read(id string) {
	s.settle(id)
	s.After = id
}

var secretShape = regexp.MustCompile(`^whsec_[0-9a-f]{64}$`)

// check returns an error if listen cannot have written this state.
func (s *state) check() error {
	isID := func(id string) bool { return checkout.IsID(checkout.PrefixEvent, id) }
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("its version is %d and not %d", s.Version, stateVersion)
	case !secretShape.MatchString(s.Secret):
		return errors.New("its secret is not whsec_ and 64 hexadecimal digits")
	case s.Position != "" && !isID(s.Position), s.After != "" && !isID(s.After), s.Floor != "" && !isID(s.Floor):
		return errors.New("its position is not an event's id")
	case !slices.IsSorted(s.Recent) || slices.ContainsFunc(s.Recent, func(id string) bool { return !isID(id) }):
		return errors.New("its recent events are not ids in order")
	}
	return nil
}

// stateFile is a state and its file. Only one process at a time can open it.
type stateFile struct {
	state
	path  string
	lock  *os.File
	isNew bool
}

// openState locks the file and reads it, or makes one with a new secret. It never changes a
// malformed file.
func openState(path string) (*stateFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the user's own choice
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	f := &stateFile{path: path, lock: lock}
	// The kernel releases the lock when the process ends, even after a kill.
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another listen is running with the state file %s: end it, or set another file with --state", path)
	case err != nil:
		err = fmt.Errorf("lock state file: %w", err)
	default:
		err = f.load()
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *stateFile) load() error {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.state, f.isNew = state{Version: stateVersion, Secret: webhook.NewSecret()}, true
		return f.save() // save the secret before it is used
	}
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	if json.Unmarshal(text, &f.state) != nil {
		err = errors.New("it is not the JSON that listen writes") // the parser's own error could quote the secret
	} else {
		err = f.check()
	}
	if err != nil {
		return fmt.Errorf(
			"the state file %s cannot be used: %w. It was left as it is. Put it right, or move it away: "+
				"then listen makes a new secret and begins with the events from then on, or from --since",
			f.path,
			err,
		)
	}
	return f.save() // find out that the file is not writable before anything is forwarded
}

// save replaces the file in one step. After a crash at any moment, either the old or the new file
// is there, complete.
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
	// O_EXCL: never write through a link that somebody else put there.
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

// syncDir makes a rename in a directory survive a crash of the computer.
func syncDir(path string) error {
	dir, err := os.Open(path) // #nosec G304 -- the user's own choice
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// close releases the lock.
func (f *stateFile) close() { _ = f.lock.Close() }
