// Package pgtemp runs a private PostgreSQL server from the binaries of this computer, which runs Linux.
//
// It serves two needs: a throwaway server per test process ([ForTest]), and the durable server of the development
// stack ([Start] with a directory). Neither touches a PostgreSQL that is already running. The server listens on
// 127.0.0.1 only, asks for a random password (SCRAM), opens no unix socket, and ends when the process that started it
// ends, in whatever way that happens. Copies of a [Template] have the template's password.
//
// Other programs of tests and of the development stack use the same means: [StartTied], [Lock] and [FreePorts].
//
// In November 2026 pgtestdb v0.1.1 was tried for the databases of tests. It took 101 to 114 ms per database, with its
// drop; [ForTest] took 43 to 64 ms. It would replace the templates of [ForTest], and neither servers, their templates
// nor locks.
//
// Layout of a server's directory:
//
//	data/         the cluster (PGDATA)
//	password      the password of user postgres, mode 0600
//	postgres.log  the server's log
//	lock          held with flock by the process that runs the server
package pgtemp
