package ebpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	catomic "sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stateBytes is the length of a second mapping of a program's map, for the words that both sides
// change.
var stateBytes = os.Getpagesize()

// mapState maps the state writable, for atomic operations.
func (r *Resident) mapState() (err error) {
	r.state, err = unix.Mmap(r.data.FD(), 0, stateBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping its state: %w", err)
	}
	return nil
}

func (r *Resident) unmapState() error {
	if r.state == nil {
		return nil
	}
	err := unix.Munmap(r.state)
	r.state = nil
	return err
}

// ErrBusy means that a program's data is not available: an activation on another processor takes
// too long.
var ErrBusy = errors.New("the program is busy in the driver")

// borrowTries is the number of times that Take checks for the end of an activation. All these
// checks together take longer than an activation with the whole budget.
const borrowTries = 100_000

// Take prevents activations of the program in the driver until Give, so that its data can be
// changed. Messages that arrive meanwhile wait for a short time, and are lost if that is not
// enough. Take fails with ErrBusy.
func (r *Resident) Take() error {
	lock := (*uint64)(unsafe.Pointer(&r.state[stateLock]))
	for i := 0; !catomic.CompareAndSwapUint64(lock, 0, 1); i++ {
		if i == borrowTries {
			return ErrBusy
		}
		if i%64 == 63 {
			runtime.Gosched()
		}
	}
	return nil
}

// Stopped reports whether the program accepts no more messages.
func (r *Resident) Stopped() bool {
	return catomic.LoadUint64((*uint64)(unsafe.Pointer(&r.state[stateStatus]))) == statusStopped
}

// Give allows activations again after Take.
func (r *Resident) Give() { catomic.StoreUint64((*uint64)(unsafe.Pointer(&r.state[stateLock])), 0) }
