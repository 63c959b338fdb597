// Package devstack runs the service with all it needs on loopback, without containers: PostgreSQL, the real Temporal
// server on that PostgreSQL, and Temporal's UI. The command devstack and the end-to-end tests use it.
//
// Every process that it starts ends with the process that started it, even after kill -9. A stack
// can start again on its directory after any process was killed at any moment.
package devstack
