// Package devstack runs what the service stands on, on loopback, without containers: PostgreSQL, the real Temporal
// server on that PostgreSQL, and Temporal's UI. The command devstack and the end-to-end tests use it.
//
// Every process it starts ends with the process that started it, kill -9 included, and everything can be started
// again on the directory that was left behind, whatever was killed at whatever moment.
package devstack
