package load

import (
	"context"

	"github.com/weftnet/weft"
)

// Ring keeps several operations of a process in flight, and takes their results in the order in
// which they began. Only one goroutine may use it.
//
//	Add ─► │ op │ op │ op │ ─► Oldest
//	       └── at most the ring's length
type Ring struct {
	ops          []*weft.Op
	begun, ended int // operations that were added and removed; the ring holds the rest
}

// NewRing returns a ring for n operations.
func NewRing(n int) *Ring { return &Ring{ops: make([]*weft.Op, n)} }

// Len returns the number of operations in the ring.
func (r *Ring) Len() int { return r.begun - r.ended }

// Full reports whether Oldest must come before the next Add.
func (r *Ring) Full() bool { return r.Len() == len(r.ops) }

// Next returns an Op for the next operation. It reuses an Op of the ring, so that a start form
// with Into in its name allocates nothing. The ring must not be full.
func (r *Ring) Next() *weft.Op {
	op := &r.ops[r.begun%len(r.ops)]
	if *op == nil {
		*op = new(weft.Op)
	}
	return *op
}

// Add adds an operation that has just begun, with the results of its start form. If err is not
// nil, Add adds nothing and returns err. The ring must not be full.
func (r *Ring) Add(op *weft.Op, err error) error {
	if err == nil {
		r.ops[r.begun%len(r.ops)] = op
		r.begun++
	}
	return err
}

// Oldest waits for the operation that was added first, and removes it. If ctx ends before the
// operation, the operation stays. The ring must not be empty.
func (r *Ring) Oldest(ctx context.Context) (weft.Message, error) {
	m, err := r.ops[r.ended%len(r.ops)].Wait(ctx)
	if err == nil {
		r.ended++
	}
	return m, err
}

// Skip removes the operation that was added first, after Oldest has returned its error.
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

// Cancel cancels all operations in flight, and waits until they no longer use their memory. If
// ended is not nil, Cancel calls it for each operation that succeeded nevertheless.
func (r *Ring) Cancel(ended func(weft.Message)) {
	for i := r.ended; i < r.begun; i++ {
		r.ops[i%len(r.ops)].Cancel()
	}
	for ; r.ended < r.begun; r.ended++ {
		// A cancelled operation ends, so the wait needs no limit.
		m, err := r.ops[r.ended%len(r.ops)].Wait(context.Background())
		if err == nil && ended != nil {
			ended(m)
		}
	}
}
