//go:build !linux

package limit

// yielding does nothing where threads have no priority of their own.
func yielding() {}
