package hostile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory attacks the files behind the memory. It notes each operation that succeeds although it
// must not.
func memory(ctx context.Context, f *foothold) {
	f.never("a shorter VNI", f.truncate(fdRW, 0))
	f.never("a longer VNI", f.truncate(fdRW, 1<<30))
	f.never("a shorter NIC half", f.truncate(fdRO, 0))
	f.never("a longer NIC half", f.truncate(fdRO, 1<<30))
	f.never("a hole in the NIC half",
		unix.Fallocate(f.fds[fdRO], unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096))
	_, err := unix.Pwrite(f.fds[fdRO], []byte{1}, 0)
	f.never("a write into the NIC half", err)
	_, err = mapAll(f.fds[fdRO], unix.PROT_READ|unix.PROT_WRITE)
	f.never("a writable NIC half", err)
	f.never("a NIC half made writable", unix.Mprotect(f.ro, unix.PROT_READ|unix.PROT_WRITE))
	f.never("the NIC half by its other name", reopen(f.fds[fdRO]))
	for _, fd := range f.fds[:2] {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		f.never("another seal", err)
	}
	_ = f.alloc(8 << 20)
	for until := time.Now().Add(bored); !f.gone() && ctx.Err() == nil && time.Now().Before(until); {
		f.punch()
	}
}

func (f *foothold) truncate(which int, n int64) error { return unix.Ftruncate(f.fds[which], n) }

// never notes an operation that should have been refused.
func (f *foothold) never(what string, err error) {
	f.tally.Acts++
	if err == nil {
		f.tally.Broken = fmt.Sprintf("%v got %s", f.name, what)
	}
}

// reopen opens a file again through /proc, and maps it writable.
func reopen(fd int) error {
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer unix.Close(again)
	_, err = mapAll(again, unix.PROT_READ|unix.PROT_WRITE)
	return err
}

// punch removes pages that the NIC uses. No seal forbids this where the process may write. Then
// punch makes the NIC use them: its sends come from these pages, and so does the command queue.
func (f *foothold) punch() {
	tolerantly(func() {
		for f.send(f.code(), 1<<20) {
			f.tally.Acts++
		}
	})
	f.ring()
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	for range 1 + f.rng.IntN(50) {
		at := int64(f.rng.IntN(len(f.rw)) &^ 4095)
		_ = unix.Fallocate(f.fds[fdRW], hole, at, int64(len(f.rw))-at)
		if len(f.regions) > 0 {
			_ = unix.Madvise(f.regions[0].mem, unix.MADV_REMOVE)
			for i := 0; i < len(f.regions[0].mem); i += 4096 {
				atomic.StoreUint64(word(f.regions[0].mem, i), 1)
			}
		}
		f.tally.Acts++
	}
	tolerantly(f.look)
	_, _, _ = unix.Syscall(unix.SYS_MREMAP, uintptr(unsafe.Pointer(&f.ro[0])), uintptr(len(f.ro)), uintptr(len(f.ro)*2))
}
