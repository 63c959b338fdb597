//go:build !linux

package limit

// lowerPriority does nothing where threads have no priority of their own.
func lowerPriority() {}
