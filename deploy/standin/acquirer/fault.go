package acquirer

import (
	"slices"
	"strings"
	"sync"
)

// A Fault lets requests of the API go wrong.
type Fault struct {
	Kind FaultKind
	// Match chooses the requests that contain it in "POST /v1/…". "" is every request.
	Match string
	// Count is how many requests the fault meets. To lose an answer for good, lose several: Go's HTTP
	// client silently repeats a request with an idempotency key when the connection breaks.
	Count int
	// Delay is for FaultSlow, in milliseconds.
	Delay int
	// AfterEffect lets FaultBroken do what was asked before it answers 500.
	AfterEffect bool
}

// FaultKind is the kind of a fault.
type FaultKind string

// Kinds of faults.
const (
	FaultLost    FaultKind = "lost"     // what was asked is done, and the connection ends without an answer
	FaultBroken  FaultKind = "broken"   // 500, saved under the idempotency key: a repeat gets it again
	FaultTooMany FaultKind = "too_many" // 429, nothing is done
	FaultSlow    FaultKind = "slow"     // the answer comes late
)

// effects are the faults that one request meets.
type effects map[FaultKind]Fault

func (e effects) has(kind FaultKind) bool {
	_, has := e[kind]
	return has
}

// faults are the planned ones. A restart forgets them.
type faults struct {
	mu      sync.Mutex
	planned []Fault
}

func (f *faults) plan(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned = append(f.planned, fault)
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned = nil
}

// meet returns the faults that a request meets, and counts it.
func (f *faults) meet(requestLine string) effects {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := effects{}
	for i := range f.planned {
		if fault := &f.planned[i]; fault.Count > 0 && strings.Contains(requestLine, fault.Match) {
			fault.Count--
			e[fault.Kind] = *fault
		}
	}
	f.planned = slices.DeleteFunc(f.planned, func(f Fault) bool { return f.Count == 0 })
	return e
}
