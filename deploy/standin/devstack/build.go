package devstack

import (
	"context"
	"fmt"
	"io"

	"example.com/checkout/deploy/standin/build"
)

// temporalProgram is Temporal's server, its SQL tool and its UI in one program.
var temporalProgram = build.Program{
	Name: "temporal", Title: "Temporal", Takes: "some minutes",
	Module: "deploy/standin/temporal", Package: ".", Files: []string{"go.mod", "go.sum", "main.go"},
}

// BuildTemporal builds the program deploy/standin/temporal into the user's cache directory and reports its
// progress to out. It returns the program's path. The first build takes some minutes and needs the
// module proxy, later calls do nothing. The working directory must be inside the source tree.
func BuildTemporal(ctx context.Context, out io.Writer) (program string, err error) {
	progress := startProgress(out)
	defer progress.end()
	if program, err = temporalProgram.Build(ctx, progress); err != nil {
		return "", fmt.Errorf("build Temporal: %w", err)
	}
	return program, nil
}
