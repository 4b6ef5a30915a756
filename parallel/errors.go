package parallel

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft"
)

// The errors of this package. Test for them with errors.Is. An error is the same on every rank:
// if an operation fails at one rank, this rank reports the error to all the others.
var (
	// ErrMismatch means that two ranks called different operations, or the same operation with
	// different shapes, element types, operators or arguments. The error is a *[MismatchError].
	ErrMismatch = errors.New("the ranks called different operations")

	// ErrBadArgument means that an argument of an operation is invalid. The text names the
	// argument.
	ErrBadArgument = errors.New("bad argument")

	// ErrStaleHalo means that a program reads the halo of a variable that has changed since the
	// last exchange of its halo.
	ErrStaleHalo = errors.New("the halo is stale")

	// ErrCollision means that a Send without an operator has two values for one position.
	ErrCollision = errors.New("two values for one position")

	// ErrRankGone means that a rank has ended, left the job, or cannot be reached. After it, only
	// [Machine.Shrink] makes progress.
	ErrRankGone = errors.New("a rank is gone")

	// ErrBusy means that another goroutine is in an operation of the machine. The call does
	// nothing.
	ErrBusy = errors.New("another operation of the machine is running")

	// ErrClosed means that the machine is closed.
	ErrClosed = errors.New("the machine is closed")

	// ErrInitialized means that the program, or the process, already has a machine. [Init] and
	// [On] return it.
	ErrInitialized = errors.New("there is a machine already")

	// ErrNoCheckpoint means that the store holds no complete checkpoint of these variables.
	// [Load] returns it.
	ErrNoCheckpoint = errors.New("no whole checkpoint")
)

// MismatchError reports two ranks that called different operations.
type MismatchError struct {
	Rank  int    // a rank
	Op    string // its operation
	Other int    // another rank
	Did   string // the operation of the other rank
}

// Error returns both ranks and both operations.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("parallel: rank %d called %s, but rank %d called %s", e.Rank, e.Op, e.Other, e.Did)
}

// Unwrap returns [ErrMismatch].
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// RankError reports the rank at which an operation failed, and the reason. If it is another rank,
// Err has the text of that rank's reason. Err then matches the same errors of this package and of
// package context, and [weft.ErrGroupBroken].
type RankError struct {
	Rank int    // the rank that failed or is gone; −1 if it is not known
	Op   string // the operation at the rank that reports the failure
	Err  error  // the reason
}

// Error returns the operation, the rank and the reason.
func (e *RankError) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("parallel: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("parallel: %s: rank %d: %v", e.Op, e.Rank, e.Err)
}

// Unwrap returns the reason.
func (e *RankError) Unwrap() error { return e.Err }

// causes are the errors that keep their identity when they are sent to another rank. A code is an
// index.
var causes = [...]error{
	ErrMismatch, ErrBadArgument, ErrStaleHalo, ErrCollision, ErrRankGone, ErrBusy, ErrClosed, ErrNoCheckpoint,
	context.Canceled, context.DeadlineExceeded, weft.ErrGroupBroken,
}

// noCause is the code of an error that is not in causes.
const noCause = 0xff

// causeOf returns the code of an error.
func causeOf(err error) byte {
	for i, c := range causes {
		if errors.Is(err, c) {
			return byte(i)
		}
	}
	return noCause
}

// told is an error that another rank has reported.
type told struct {
	text  string
	cause error
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.cause }

// badArgument returns an error that matches ErrBadArgument.
func badArgument(format string, args ...any) error {
	return &told{ErrBadArgument.Error() + ": " + fmt.Sprintf(format, args...), ErrBadArgument}
}
