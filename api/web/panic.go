package web

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Panic is a handler's panic as an error. A panic's value may hold data of a merchant or a
// customer. So Panic keeps only its type, or the text of a runtime error.
type Panic struct {
	Stack string
	what  string
}

func (p *Panic) Error() string { return "panic: " + p.what }

// Catch sets *err to a *Panic when the function that defers Catch panics. It lets
// http.ErrAbortHandler through, because a handler uses that to cut the connection.
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
