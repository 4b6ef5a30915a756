package xdp

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of one queue, in entries. A chunk is a page: without further machinery the kernel takes
// no longer frames.
const (
	chunkBytes = 4096
	chunkSpare = 256 // the kernel's room before a received frame, in bytes

	// A chunk is filled again after all others were filled, so fewer chunks are warmer in the
	// cache. Also, all frames begin at the same offset of a page, and so compete for the same
	// cache lines. With 2,048 chunks, a round trip of 64 bytes took a quarter longer than with
	// 512; 256 gave no further gain. This is the number of frames that senders may have in
	// flight: half a millisecond of the fastest link.
	fillRing = 512

	sendRing = 1024
	chunks   = fillRing + sendRing

	// QueueBytes is the memory that a driver locks for each queue of its interface.
	QueueBytes = chunks * chunkBytes
)

// queue is an AF_XDP socket on one queue of the interface, with its own memory, the umem. The
// first fillRing chunks are for the kernel to fill, and the others are for sending.
type queue struct {
	fd   int
	umem []byte
	maps [][]byte
	fill *producer[uint64]
	rx   *consumer[desc]
	tx   *producer[desc]
	done *consumer[uint64]
	// soon is the likely place of the next frame: chunks return in the order in which they went
	// to be filled.
	soon    uint64
	free    []uint64 // chunks for sending
	copying error    // why the kernel copies frames; nil if it does not
}

// openQueue makes the socket and binds it. It uses zero-copy if the driver supports it and
// copying is false.
func openQueue(ifindex, number int, copying bool) (q *queue, err error) {
	q = &queue{fd: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.close())
			q = nil
		}
	}()
	if q.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return q, fmt.Errorf("AF_XDP socket: %w", err)
	}
	if q.umem, err = unix.Mmap(-1, 0, chunks*chunkBytes,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return q, fmt.Errorf("%d bytes for frames: %w", chunks*chunkBytes, err)
	}
	reg := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(&q.umem[0]))), Len: uint64(len(q.umem)), Size: chunkBytes}
	if err := q.set(unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg)); err != nil {
		return q, fmt.Errorf("registering the memory for frames (it must be locked: "+
			"CAP_IPC_LOCK or a larger RLIMIT_MEMLOCK): %w",
			err)
	}
	for _, r := range []struct {
		option int
		size   uint32
	}{
		{unix.XDP_UMEM_FILL_RING, fillRing}, {unix.XDP_UMEM_COMPLETION_RING, sendRing},
		{unix.XDP_RX_RING, fillRing}, {unix.XDP_TX_RING, sendRing},
	} {
		if err := q.set(r.option, unsafe.Pointer(&r.size), 4); err != nil {
			return q, fmt.Errorf("a ring of %d: %w", r.size, err)
		}
	}
	if err := q.mapRings(); err != nil {
		return q, err
	}
	for i := range uint64(fillRing) {
		q.fill.put(i * chunkBytes)
	}
	q.fill.show()
	for i := range uint64(sendRing) {
		q.free = append(q.free, (fillRing+i)*chunkBytes)
	}
	return q, q.bind(ifindex, number, copying)
}

func (q *queue) set(option int, v unsafe.Pointer, n uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT,
		uintptr(q.fd), unix.SOL_XDP, uintptr(option), uintptr(v), n, 0); errno != 0 {
		return errno
	}
	return nil
}

// mapRings maps the four rings at the offsets that the kernel reports.
func (q *queue) mapRings() error {
	var off unix.XDPMmapOffsets
	n := uint32(unsafe.Sizeof(off))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(q.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&n)), 0); errno != 0 || n != uint32(unsafe.Sizeof(off)) {
		return fmt.Errorf("where the rings are: %d bytes, %w (needs Linux 5.4 or later)", n, errno)
	}
	var err error
	if q.fill, err = mapProducer[uint64](q, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, fillRing); err != nil {
		return err
	}
	if q.done, err = mapConsumer[uint64](q, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, sendRing); err != nil {
		return err
	}
	if q.rx, err = mapConsumer[desc](q, unix.XDP_PGOFF_RX_RING, off.Rx, fillRing); err != nil {
		return err
	}
	q.tx, err = mapProducer[desc](q, unix.XDP_PGOFF_TX_RING, off.Tx, sendRing)
	return err
}

func mapProducer[T any](q *queue, at int64, off unix.XDPRingOffset, n int) (*producer[T], error) {
	i, entries, err := mapRing[T](q, at, off, n)
	if err != nil {
		return nil, err
	}
	return newProducer(i, entries), nil
}

func mapConsumer[T any](q *queue, at int64, off unix.XDPRingOffset, n int) (*consumer[T], error) {
	i, entries, err := mapRing[T](q, at, off, n)
	if err != nil {
		return nil, err
	}
	return newConsumer(i, entries), nil
}

func mapRing[T any](q *queue, at int64, off unix.XDPRingOffset, n int) (i indices, entries []T, err error) {
	var v T
	mem, err := unix.Mmap(q.fd, at, int(off.Desc)+n*int(unsafe.Sizeof(v)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return i, nil, fmt.Errorf("mapping a ring: %w", err)
	}
	q.maps = append(q.maps, mem)
	word := func(o uint64) *uint32 { return (*uint32)(unsafe.Pointer(&mem[o])) }
	return indices{word(off.Producer), word(off.Consumer), word(off.Flags)},
		unsafe.Slice((*T)(unsafe.Pointer(&mem[off.Desc])), n), nil
}

// The kernel releases a queue slightly later than its closed socket.
const (
	bindTries = 100
	bindPause = 2 * time.Millisecond
)

// bind binds the socket to its queue. It falls back to copying if the driver does not support
// zero-copy.
func (q *queue) bind(ifindex, number int, copying bool) error {
	sa := &unix.SockaddrXDP{Ifindex: uint32(ifindex), QueueID: uint32(number)}
	q.copying = errors.New("copying was asked for")
	tries := bindTries
	if !copying {
		sa.Flags = unix.XDP_ZEROCOPY | unix.XDP_USE_NEED_WAKEUP
		if q.copying = q.bindSoon(sa, &tries); q.copying == nil {
			return nil
		}
	}
	sa.Flags = unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP
	err := q.bindSoon(sa, &tries)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("queue %d has another AF_XDP socket already: %w", number, err)
	case err != nil:
		return fmt.Errorf("binding to queue %d: zero-copy: %w; copying: %w", number, q.copying, err)
	}
	return nil
}

// bindSoon binds as soon as the kernel has released the queue from its previous socket. *tries is
// the number of tries left.
func (q *queue) bindSoon(sa *unix.SockaddrXDP, tries *int) error {
	for ; ; *tries-- {
		err := unix.Bind(q.fd, sa)
		if !errors.Is(err, unix.EBUSY) || *tries == 0 {
			return err
		}
		time.Sleep(bindPause)
	}
}

// kick makes the kernel send the frames in the tx ring. With copying, one call sends a few dozen
// frames.
func (q *queue) kick() (calls uint64) {
	for range 2 * sendRing / 32 {
		if !q.tx.wants() {
			return calls
		}
		calls++
		// A raw system call suffices, since it does not block. The destination is the socket's
		// own.
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EBUSY && errno != unix.ENOBUFS || !q.tx.pending() {
			return calls
		}
		q.reclaim()
	}
	return calls
}

// reclaim takes back the chunks of sent frames.
func (q *queue) reclaim() {
	for {
		addr, ok := q.done.get()
		if !ok {
			q.done.done()
			return
		}
		q.free = append(q.free, addr&^(chunkBytes-1))
	}
}

// giveBack returns the chunks of handed over frames to the kernel.
func (q *queue) giveBack() {
	q.rx.done()
	q.fill.show()
}

// overrun returns the number of frames for which the kernel had no chunk, or no place in the rx
// ring.
func (q *queue) overrun() uint64 {
	// This is the format of kernels that count both as one. Later kernels use it, too, if no
	// more bytes are requested.
	var s struct{ dropped, badRx, badTx uint64 }
	n := uint32(unsafe.Sizeof(s))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(q.fd), unix.SOL_XDP, unix.XDP_STATISTICS,
		uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		return 0
	}
	return s.dropped
}

func (q *queue) close() (err error) {
	if q.fd >= 0 {
		err = unix.Close(q.fd)
	}
	// The mappings hold the socket and so the queue: if they were unmapped later, the next bind
	// would find it busy.
	for _, m := range q.maps {
		err = errors.Join(err, unix.Munmap(m))
	}
	if q.umem != nil {
		err = errors.Join(err, unix.Munmap(q.umem))
	}
	*q = queue{fd: -1}
	return err
}
