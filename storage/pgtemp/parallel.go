package pgtemp

import (
	"flag"
	"runtime"
	"strconv"
)

// RunInParallel makes a test process run at least four parallel tests at a time. Tests with a database mostly wait.
// A TestMain calls it first. The flag -parallel overrides it.
func RunInParallel() {
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
}
