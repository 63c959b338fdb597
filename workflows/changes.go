// Package workflows holds the Temporal workflows of the service. They are deterministic and do no
// I/O; activities do. Their names, inputs and results are in package contract.
package workflows

// Changes of the order of commands. A run that began before a change goes on in the old order.
const (
	// changeRestartOrphans: an activity starts missing runs. Before, they were children of Reconcile.
	changeRestartOrphans = "restart-orphans"
)
