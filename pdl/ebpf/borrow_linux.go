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

// stateBytes is how much of a program's map is mapped once more, for the words that both sides change.
var stateBytes = os.Getpagesize()

// mapState maps the state, writable by atomic operations.
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

// ErrBusy is why a program's data could not be had: another processor has been in an activation for too long.
var ErrBusy = errors.New("the program is busy in the driver")

// borrowTries is how often Take looks whether an activation has ended: for longer than one with the whole budget takes.
const borrowTries = 100_000

// Take keeps the program from activations in the driver until Give, so that its data can be changed. Messages that come meanwhile wait a little, and
// are lost if that is not enough.
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

// Stopped reports whether the program takes no more messages.
func (r *Resident) Stopped() bool {
	return catomic.LoadUint64((*uint64)(unsafe.Pointer(&r.state[stateStatus]))) == statusStopped
}

// Give ends what Take has begun.
func (r *Resident) Give() { catomic.StoreUint64((*uint64)(unsafe.Pointer(&r.state[stateLock])), 0) }
