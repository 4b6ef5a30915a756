package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/weftnet/weft/pdl/kernels"
	"github.com/weftnet/weft/pdl/vm"
)

// InternalRow is the time of one part of a message's way through the virtual machine (PANIC-46):
// the best of many short rounds.
type InternalRow struct {
	Bench    string  `json:"bench"`
	Sealed   bool    `json:"sealed"`   // the links between NICs
	Internal string  `json:"internal"` // dispatch, handler, interpreter, deliver, or copy
	Size     int     `json:"size"`     // bytes that are moved
	Took     float64 `json:"took_ns"`
	Allocs   float64 `json:"allocs"` // allocations of one
}

// The parts.
const (
	// from a message to its trigger, and back: a message whose handler is empty
	partDispatch    = "dispatch"
	partHandler     = "handler"     // a whole token bucket
	partInterpreter = "interpreter" // the same without the dispatch
	partDeliver     = "deliver"     // a DELIVER from the message to a segment, without the dispatch
	partCopy        = "copy"        // the copy within that DELIVER
)

// RunProgramInternal measures the parts, each for the time d, and passes each row to out. It
// needs one process and no NIC.
func RunProgramInternal(ctx context.Context, d time.Duration, sizes []int, out func(InternalRow) error) error {
	row := func(part string, size int, ns, allocs float64) error {
		return out(InternalRow{KindProgram, false, part, size, ns, allocs})
	}
	var empty float64
	for i, h := range kernels.Handlers() {
		ns, allocs, err := measureDispatch(ctx, h.Source, kernels.Packet(64), d)
		if err != nil {
			return err
		}
		part := partHandler
		if i == 0 {
			part, empty = partDispatch, ns
		}
		if err := row(part, 0, ns, allocs); err != nil {
			return err
		}
		if part == partHandler {
			if err := row(partInterpreter, 0, ns-empty, allocs); err != nil {
				return err
			}
		}
	}
	for _, size := range sizes {
		if size == 0 {
			continue
		}
		source := "PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DELIVER PACKET[0] OFFSET 0 " +
			"INTO 1 LEN PACKETLEN END; END;"
		ns, allocs, err := measureDispatch(ctx, source, kernels.Packet(size), d)
		if err != nil {
			return err
		}
		if err := row(partDeliver, size, ns-empty, allocs); err != nil {
			return err
		}
		to, from := make([]byte, size), kernels.Packet(size)
		ns, allocs, err = best(ctx, d, func() error { copy(to, from); return nil })
		if err != nil {
			return err
		}
		if err := row(partCopy, size, ns, allocs); err != nil {
			return err
		}
	}
	return nil
}

// measureDispatch measures a message for trigger 1 of a program.
func measureDispatch(
	ctx context.Context, source string, packet []byte, d time.Duration,
) (ns, allocs float64, err error) {
	mc, err := newMachine(source, segmentHost{segment: make([]byte, MostProgramSize)})
	if err != nil {
		return 0, 0, err
	}
	m := &vm.Message{Program: machineProgram, Trigger: 1, Payload: packet}
	return best(ctx, d, func() error {
		if o := mc.Dispatch(m); o == vm.Aborted || o == vm.NoTrigger || o == vm.Inactive {
			return fmt.Errorf("bench: an activation ended: %v", o)
		}
		return nil
	})
}

// roundCalls is how many calls are timed together: they take as long as tens of clock readings.
const roundCalls = 100

// best returns the time of a call in the best of many rounds, and its allocations.
func best(ctx context.Context, d time.Duration, f func() error) (ns, allocs float64, err error) {
	ns = math.Inf(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	calls := 0
	for begin := time.Now(); calls == 0 || time.Since(begin) < d; calls += roundCalls {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		ns = min(ns, timed(roundCalls, func() {
			if e := f(); e != nil {
				err = e
			}
		}))
		if err != nil {
			return 0, 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return ns, math.Round(float64(after.Mallocs-before.Mallocs) / float64(calls)), nil
}

// segmentHost is a NIC with one segment.
type segmentHost struct {
	noHost
	segment []byte
}

func (h segmentHost) Deliver(tr vm.Transfer, data []byte) vm.Status {
	copy(h.segment[tr.Offset:], data)
	return vm.Done
}
