package driver

import (
	"context"
	"errors"
	"sync"

	"github.com/weftnet/weft/internal/vni"
)

// ErrNoSlot means that every entry of the process table has a process.
var ErrNoSlot = errors.New("driver: every slot has a process")

// Waiter waits for the NIC on behalf of the driver.
type Waiter interface {
	// Wait returns nil once ready returns true. It returns ctx's error if ctx ends before, and
	// another error if the NIC will not answer any more. ready only loads atomics. Wait may call
	// it from any goroutine until it returns.
	Wait(ctx context.Context, ready func() bool) error
	// Kick makes the NIC poll. It does not block.
	Kick()
	// Wake makes every Wait call its ready again. It does not block.
	Wake()
}

// Registrar is a driver half for many goroutines. They wait for their doorbells.
type Registrar struct {
	w  Waiter
	mu sync.Mutex
	d  *Driver
}

// NewRegistrar returns a registrar that owns a driver half from now on.
func NewRegistrar(d *Driver, w Waiter) *Registrar { return &Registrar{w: w, d: d} }

// Take takes a free entry of the process table for a process of the operating system. It returns
// ErrNoSlot if there is none.
func (r *Registrar) Take(pid int) (slot uint16, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot, ok := r.d.Take(uint32(pid))
	if !ok {
		return 0, ErrNoSlot
	}
	return slot, nil
}

// GiveBack frees an entry. The NIC must not know its process, or not know it any more.
func (r *Registrar) GiveBack(slot uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.d.GiveBack(slot)
}

// Taken returns the number of entries with a process, and the number of all that can have one.
func (r *Registrar) Taken() (used, of int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.d.Taken()
}

// Pending returns the number of commands that are posted and not answered, and the capacity of
// the queue.
func (r *Registrar) Pending() (n, of int) { return r.d.Pending() }

// New makes the NIC serve a process at the entry that was taken for it (QNIX-62). If New fails,
// or ctx ends first, the NIC does not know the process: e.VNI belongs to the caller again, which
// must give the entry back. Slot 0, the NIC's own, is neither taken nor given back.
func (r *Registrar) New(ctx context.Context, slot uint16, pid int, name vni.Name, e Entry) (gen uint32, err error) {
	r.mu.Lock()
	r.d.Tie(slot, e)
	r.mu.Unlock()
	at, err := r.post(ctx, Command{Code: NewProcess, Index: slot, PID: uint32(pid), Name: name}, new(unclaimed))
	if err != nil {
		return 0, err
	}
	res, err := r.await(ctx, at)
	if err != nil {
		return 0, errors.Join(err, r.withdraw(slot, at))
	}
	return res.Gen, res.Err
}

// withdraw deletes a process whose New_Process is at a position and perhaps not answered yet.
// The NIC answers both commands.
func (r *Registrar) withdraw(slot uint16, at int) error {
	first := &unclaimed{at: at, open: true}
	err := r.delete(slot, first)
	first.claim(r)
	return err
}

// Delete makes the NIC remove a process. After it returns, the NIC touches none of the process's
// memory. The NIC answers at its next poll, and Delete waits only for that. It returns the
// waiter's error if there is no further poll.
func (r *Registrar) Delete(slot uint16) error { return r.delete(slot, new(unclaimed)) }

func (r *Registrar) delete(slot uint16, own *unclaimed) error {
	at, err := r.post(context.Background(), Command{Code: DeleteProcess, Index: slot}, own)
	if err != nil {
		return err
	}
	res, err := r.await(context.Background(), at)
	return errors.Join(err, res.Err)
}

// await waits for the doorbell of a position.
func (r *Registrar) await(ctx context.Context, at int) (Result, error) {
	err := r.w.Wait(ctx, func() bool { return r.d.Doorbell(at) == vni.Done })
	if res, ok := r.answered(at); ok {
		return res, nil
	}
	return Result{}, err
}

// answered takes the result of a position, if there is one. It then wakes the callers that wait
// for room.
func (r *Registrar) answered(at int) (Result, bool) {
	r.mu.Lock()
	res, ok := r.d.Answered(at)
	r.mu.Unlock()
	if ok {
		r.w.Wake()
	}
	return res, ok
}

// unclaimed is an answer to a command of the caller that the caller has not taken yet. The zero
// value is none.
type unclaimed struct {
	at   int
	open bool
}

// there reports whether the answer has arrived.
func (u *unclaimed) there(r *Registrar) bool { return u.open && r.d.Doorbell(u.at) == vni.Done }

// claim takes the answer if it has arrived. Then other commands can use the position.
func (u *unclaimed) claim(r *Registrar) {
	if u.open {
		_, ok := r.answered(u.at)
		u.open = !ok
	}
}

// post waits for room, posts a command, and wakes the NIC. While it waits, it also takes the
// caller's own answer when that arrives. The tail may be at the position of that answer. Then no
// command could be posted until the answer is taken, not even the caller's.
func (r *Registrar) post(ctx context.Context, c Command, own *unclaimed) (int, error) {
	for {
		r.mu.Lock()
		at, ok := r.d.Post(c)
		r.mu.Unlock()
		if ok {
			r.w.Kick()
			return at, nil
		}
		if err := r.w.Wait(ctx, func() bool { return r.d.Room() || own.there(r) }); err != nil {
			return 0, err
		}
		own.claim(r)
	}
}
