//go:build ruleguard

// Package lint holds rules of this repository for golangci-lint, which reads them by gocritic's
// check ruleguard. No program contains them.
package lint

import "github.com/quasilyte/go-ruleguard/dsl"

// returnOrder finds a return statement that reads a variable and calls what changes it. Go makes
// the calls of a statement from left to right, but leaves open whether it reads the variable
// before or after them. gocritic's own check evalOrder knows the plain case, return x, f(&x).
func returnOrder(m dsl.Matcher) {
	const advice = "Go may read $x before or after the call changes it: call first, then return"

	m.Match(`return $x, $call`, `return $x.$_, $call`, `return $x[$_], $call`).
		Where(m["call"].Contains(`&$x`) || m["call"].Contains(`&$x.$_`) || m["call"].Contains(`&$x[$_]`)).
		Report(advice)
	// What a group of goroutines collects is there only after Wait.
	m.Match(`return $x, $_.Wait()`).
		Where(m["x"].Node.Is(`Ident`) && m["x"].Text != "nil").
		Report(advice)
}
