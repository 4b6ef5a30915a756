package driver

import (
	"context"
	"errors"
	"sync"

	"github.com/weftnet/weft/internal/vni"
)

// ErrNoSlot says that every entry of the process table has a process.
var ErrNoSlot = errors.New("driver: every slot has a process")

// Waiter is how the driver waits for the NIC.
type Waiter interface {
	// Wait returns nil once ready returns true, ctx's error if ctx ends before that, and another error if the NIC will
	// answer no more. ready only loads atomics; Wait may call it from any goroutine until it returns.
	Wait(ctx context.Context, ready func() bool) error
	// Kick has the NIC polled. It does not block.
	Kick()
	// Wake has every Wait look at its ready again. It does not block.
	Wake()
}

// Registrar is a driver half for many goroutines, which wait for their doorbells.
type Registrar struct {
	w  Waiter
	mu sync.Mutex
	d  *Driver
}

// NewRegistrar makes a registrar of a driver half, which is its own from now on.
func NewRegistrar(d *Driver, w Waiter) *Registrar { return &Registrar{w: w, d: d} }

// Take takes a free entry of the process table for a process of the operating system. The error is ErrNoSlot if there is none.
func (r *Registrar) Take(pid int) (slot uint16, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot, ok := r.d.Take(uint32(pid))
	if !ok {
		return 0, ErrNoSlot
	}
	return slot, nil
}

// GiveBack makes an entry free that was taken, and of whose process the NIC knows nothing, or nothing any more.
func (r *Registrar) GiveBack(slot uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.d.GiveBack(slot)
}

// Taken is how many entries of the process table have a process, of how many.
func (r *Registrar) Taken() (used, of int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.d.Taken()
}

// Pending is how many commands have been posted and are not answered, of how many.
func (r *Registrar) Pending() (n, of int) { return r.d.Pending() }

// New has the NIC serve a process at the entry that was taken for it (QNIX-62). If that fails, or ctx ends first, the NIC
// knows nothing of it: e.VNI is the caller's again, and the entry is to be given back. Slot 0, the NIC's own, is neither
// taken nor given back.
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

// withdraw deletes a process whose New_Process stands at a position and may not be answered yet. The NIC
// answers both commands.
func (r *Registrar) withdraw(slot uint16, at int) error {
	first := &unclaimed{at: at, open: true}
	err := r.delete(slot, first)
	first.claim(r)
	return err
}

// Delete has the NIC let a process go. When it returns, the NIC touches none of the process's memory again. The NIC answers
// at its next poll, so this waits for nothing but that; the error is the waiter's, if there is no further poll.
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

// answered takes the result of a position, if there is one, and wakes the callers that wait for room.
func (r *Registrar) answered(at int) (Result, bool) {
	r.mu.Lock()
	res, ok := r.d.Answered(at)
	r.mu.Unlock()
	if ok {
		r.w.Wake()
	}
	return res, ok
}

// unclaimed is the answer to a command of the caller that it has not taken yet. The zero value is none.
type unclaimed struct {
	at   int
	open bool
}

// there reports whether the answer has come.
func (u *unclaimed) there(r *Registrar) bool { return u.open && r.d.Doorbell(u.at) == vni.Done }

// claim takes the answer if it has come. The position is another command's from then on.
func (u *unclaimed) claim(r *Registrar) {
	if u.open {
		_, ok := r.answered(u.at)
		u.open = !ok
	}
}

// post waits for room, posts a command, and wakes the NIC. While it waits, it also takes the caller's
// own answer when that answer comes. The tail may stand at the position of that answer. Then no
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
