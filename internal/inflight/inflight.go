// Package inflight keeps several operations of a process under way and takes their ends in the order of their begins.
//
//	Add ─► │ op │ op │ op │ ─► Oldest
//	       └── at most the ring's length
package inflight

import (
	"context"

	"github.com/weftnet/weft"
)

// Ring holds operations under way. One goroutine uses it.
type Ring struct {
	ops          []*weft.Op
	begun, ended int // operations added and taken out since the start; the ring holds those in between
}

// New makes a ring for n operations.
func New(n int) *Ring { return &Ring{ops: make([]*weft.Op, n)} }

// Len is how many operations are in the ring.
func (r *Ring) Len() int { return r.begun - r.ended }

// Full reports whether Oldest must come before the next Add.
func (r *Ring) Full() bool { return r.Len() == len(r.ops) }

// Next is an Op for the next operation: one that was in the ring before, so that a begin of the form Into allocates nothing.
// The ring must not be full.
func (r *Ring) Next() *weft.Op {
	op := &r.ops[r.begun%len(r.ops)]
	if *op == nil {
		*op = new(weft.Op)
	}
	return *op
}

// Add takes an operation that has just begun, as the start forms return it: with an error it takes nothing and returns
// that error. The ring must not be full.
func (r *Ring) Add(op *weft.Op, err error) error {
	if err == nil {
		r.ops[r.begun%len(r.ops)] = op
		r.begun++
	}
	return err
}

// Oldest waits for the operation that was added first and takes it out, unless ctx ended before the operation did.
// The ring must not be empty.
func (r *Ring) Oldest(ctx context.Context) (weft.Message, error) {
	m, err := r.ops[r.ended%len(r.ops)].Wait(ctx)
	if err == nil {
		r.ended++
	}
	return m, err
}

// Skip takes out the operation that was added first, with whose error Oldest has returned.
func (r *Ring) Skip() { r.ended++ }

// Finish waits for all operations.
func (r *Ring) Finish(ctx context.Context) error {
	for r.Len() > 0 {
		if _, err := r.Oldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Cancel cancels what is under way and waits until no memory is in use any more. Operations that ended well
// nevertheless are told to ended, if that is not nil.
func (r *Ring) Cancel(ended func(weft.Message)) {
	for i := r.ended; i < r.begun; i++ {
		r.ops[i%len(r.ops)].Cancel()
	}
	for ; r.ended < r.begun; r.ended++ {
		// A cancelled operation ends, so no context need bound this.
		m, err := r.ops[r.ended%len(r.ops)].Wait(context.Background())
		if err == nil && ended != nil {
			ended(m)
		}
	}
}
