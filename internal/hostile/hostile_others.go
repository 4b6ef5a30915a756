//go:build !linux

package hostile

import (
	"context"
	"errors"
)

// Act always fails: a NIC daemon needs Linux, and so does a process that attacks it.
func Act(context.Context, string, string, uint64, []string, *Tally) error {
	return errors.New("hostile: needs a NIC daemon, and so Linux")
}
