package devstack

import "example.com/checkout/deploy/standin/build"

// TemporalProgram is Temporal's server, its SQL tool and its UI in one program. The libraries of clouds are 700 of its
// 1,800 packages and most of its size, and nothing of them runs on one computer.
var TemporalProgram = build.Program{
	Name: "temporal", Title: "Temporal", Takes: "some minutes",
	Module: "deploy/standin/temporal", Package: ".", Files: []string{"go.mod", "go.sum", "main.go"},
	Without: build.Without{
		Libraries: []string{"cloud.google.com/", "github.com/aws/", "google.golang.org/api/", "k8s.io/", "modernc.org/"},
		Stubs: map[string]string{
			"go.temporal.io/auto-scaled-workers/wci/workflow/compute_provider":               "_without/compute_provider.go",
			"go.temporal.io/server/common/archiver/gcloud/connector":                         "_without/connector.go",
			"go.temporal.io/server/common/archiver/s3store":                                  "_without/s3store.go",
			"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite":                  "_without/sqlite.go",
			"go.temporal.io/server/common/persistence/visibility/store/elasticsearch/client": "_without/client.go",
		},
	},
}
