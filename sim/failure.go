package sim

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Failure is the error of a failed run. It holds the seed and the command that repeat the run.
type Failure struct {
	Seed   uint64        // seed of the fabric
	At     time.Duration // virtual time since the start
	Replay string        // command that repeats the run
	Err    error         // first error of the run
}

// Error returns the seed, the time, the error and the command.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, after %v: %v\nreplay: %s", f.Seed, f.At, f.Err, f.Replay)
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// SeedVariable is the environment variable that Seed reads.
const SeedVariable = "WEFT_SIM_SEED"

// Seed returns the seed in the environment variable WEFT_SIM_SEED. If the variable is not set or is
// not a number, Seed returns fallback. If a test takes its seed from Seed, the command in a Failure
// repeats the run.
func Seed(fallback uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64); err == nil {
		return n
	}
	return fallback
}

// failed wraps an error of the run.
func (f *Fabric) failed(err error) error {
	replay := f.cfg.Replay
	if replay == "" {
		replay = fmt.Sprintf("%s=%d go test -run %s", SeedVariable, f.cfg.Seed, "NAME")
	}
	return &Failure{Seed: f.cfg.Seed, At: f.Elapsed(), Replay: replay, Err: err}
}

// fail ends the run with an error. The first error counts.
func (f *Fabric) fail(err error) {
	if f.err == nil && err != nil {
		f.err = f.failed(err)
	}
}
