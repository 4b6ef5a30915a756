//go:build !linux

package hostile

import (
	"context"
	"errors"
)

// Act does nothing here: a NIC daemon needs Linux, and so does a process that would do it harm.
func Act(context.Context, string, string, uint64, []string, *Tally) error {
	return errors.New("hostile: needs a NIC daemon, and so Linux")
}
