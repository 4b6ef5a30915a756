package sim

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Failure is what was wrong with a run, and how to have the same run again. Run returns it.
type Failure struct {
	Seed   uint64
	At     time.Duration // virtual time since the start
	Replay string        // the command
	Err    error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, after %v: %v\nreplay: %s", f.Seed, f.At, f.Err, f.Replay)
}

func (f *Failure) Unwrap() error { return f.Err }

// SeedVariable is the environment variable that Seed reads.
const SeedVariable = "WEFT_SIM_SEED"

// Seed returns the seed in the environment variable WEFT_SIM_SEED, or otherwise if it is not set. A test that takes its
// seed from here can replay a failure by the command that the failure prints.
func Seed(otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// failed wraps what went wrong.
func (f *Fabric) failed(err error) error {
	replay := f.cfg.Replay
	if replay == "" {
		replay = fmt.Sprintf("%s=%d go test -run %s", SeedVariable, f.cfg.Seed, "NAME")
	}
	return &Failure{Seed: f.cfg.Seed, At: f.Elapsed(), Replay: replay, Err: err}
}

// fail ends the run with an error, the first of them.
func (f *Fabric) fail(err error) {
	if f.err == nil && err != nil {
		f.err = f.failed(err)
	}
}
