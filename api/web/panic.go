package web

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Panic is a handler's panic, as an error. The value may hold what a merchant or a
// customer sent, so only its type is kept, and the words of errors of the runtime.
type Panic struct {
	Stack string
	what  string
}

func (p *Panic) Error() string { return "panic: " + p.what }

// Catch makes *err a *Panic when the function that defers it panics. A handler
// that panics with http.ErrAbortHandler means to cut the connection, and does.
func Catch(err *error) {
	switch v := recover().(type) {
	case nil:
	case runtime.Error:
		*err = &Panic{string(debug.Stack()), v.Error()}
	default:
		if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
			panic(v)
		}
		*err = &Panic{string(debug.Stack()), fmt.Sprintf("%T", v)}
	}
}
