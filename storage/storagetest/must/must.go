// Package must takes the results of calls apart in tests.
package must

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Get returns the result of a call that must succeed, as in must.Get(call())(t).
func Get[T any](got T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return got
	}
}

// Err leaves out the result of a call that must fail, or whose result does not matter.
func Err(_ any, err error) error { return err }
