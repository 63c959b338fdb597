// Command release makes everything that a release hands out.
//
//	go run ./deploy/cmd/release -out dist -version 1.0.0
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"example.com/checkout/deploy/release"
)

func main() {
	out := flag.String("out", "dist", "directory to write; it must be empty or absent")
	version := flag.String("version", "1.0.0", "version of the release")
	only := flag.String("platform", "", "make the program of this platform alone, such as linux/amd64")
	flag.Parse()
	platforms := release.Platforms
	if *only != "" {
		system, arch, _ := strings.Cut(*only, "/")
		platforms = []release.Platform{{OS: system, Arch: arch}}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	say := func(step string) { fmt.Fprintln(os.Stderr, "release:", step) }
	if err := release.Make(ctx, *version, *out, platforms, say); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
