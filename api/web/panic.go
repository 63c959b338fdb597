package web

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Panic is a panic as an error. A panic's value may hold data of a merchant or a customer. So Panic
// keeps only its type, or the text of a runtime error.
type Panic struct {
	Stack string
	what  string
}

func (p *Panic) Error() string { return "panic: " + p.what }

// NewPanic returns the panic whose value recover has just returned, with this goroutine's stack. A
// goroutine that works for another one gives it the result; the other one panics with it, and Catch
// then has both stacks.
func NewPanic(value any) *Panic {
	stack := string(debug.Stack())
	switch v := value.(type) {
	case *Panic:
		return &Panic{v.Stack + "\nfor the goroutine\n" + stack, v.what}
	case runtime.Error:
		return &Panic{stack, v.Error()}
	default:
		return &Panic{stack, fmt.Sprintf("%T", v)}
	}
}

// Catch sets *err to a *Panic when the function that defers Catch panics. It lets
// http.ErrAbortHandler through, because a handler uses that to cut the connection.
func Catch(err *error) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler: // net/http compares so too
		panic(v)
	default:
		*err = NewPanic(v)
	}
}
