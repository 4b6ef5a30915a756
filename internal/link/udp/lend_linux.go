//go:build linux && !portable

package udp

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/copier"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// lender makes the kernel send large batches from memory that it can read, instead of copying
// them:
//
//	stage ┌────┬────┬────┐  copied  ┌───────┬───────┬───────┬─ ─  vmsplice, splice  the receiver's
//	      └────┴────┴────┘ ───────► │ batch │ batch │       │    ─────────────────► recvmsg
//	                                └───────┴───────┴───────┴─ ─
//
// If the far end is on the same host, the kernel's copy takes a third to two thirds of the whole
// time of sending. It writes to memory that another core has just read, and each cache line must
// first be fetched back from that core's cache: 110 ns if the two are near and 500 if they are
// far apart. The lender copies instead into a ring that is larger than a core's cache. That
// costs a fifth if the cores are near; if they are far apart the copy bypasses the caches
// (internal/copier). The kernel takes the pages as they are.
//
// If plain stores are the faster way, the stage moves into the ring for such a batch, so that
// its frames are written where they are lent. Payload is then copied once, while its checksum is
// computed, and both together cost hardly more than either alone.
//
// Lent memory must stay unchanged until it has been read, but the kernel does not tell when. The
// ring has room for several times the bytes of long messages that a peer permits in flight
// (limits.GrantedBytes). So a batch that is overwritten has arrived, or counts as lost. If it is
// still in flight nevertheless, as to a peer that has not read for long, the checksums of its
// frames no longer match, and they are retransmitted. Memory that was lent for one peer is not
// used for another: it is unmapped, and the system frees it once it is no longer read.
type lender struct {
	able   bool   // the self-test has shown that lending works
	why    error  // or the reason why it does not
	least  int    // bytes of a batch that is worth lending
	whole  []byte // the mapping; nil if there is none
	memory []byte // limits.LentBytes
	copier copier.Copier
	pipe   [2]int // from memory to socket, for pages
	piped  bool   // the pipe is open
	next   int    // where the next batch begins: whole pages, followed by lentRoom
	size   int    // of the frames into which the direct socket cuts batches; 0 if it cuts none
	failed int    // batches in a row that the kernel refused to take so
	stale  bool   // the memory is to be unmapped once no frame is staged there
	// A socket had no room for the last batch. To copy and lend each batch again until there is
	// room costs more than the kernel's copy.
	full bool
}

// lentRoom is the room of a batch: whole pages of lentPage bytes each, of which the kernel takes
// sixteen in one call. If pages are larger, some are lent for two batches, which does no harm.
const (
	lentRoom = 64 << 10
	lentPage = 4 << 10
)

// lendTries is how many batches in a row the kernel may refuse before lending ends. One or two
// in between are about the network: a connected socket reports errors of earlier frames.
const lendTries = 16

// worth reports whether a batch is to be lent.
func (l *lender) worth(batch []staged) bool {
	if len(batch) < 2 {
		return false
	}
	return l.lends(batch[len(batch)-1].end() - int(batch[0].off))
}

// lends reports whether batches of so many bytes are lent now.
func (l *lender) lends(bytes int) bool {
	return l.able && !l.full && !l.stale && bytes >= l.least && bytes <= lentRoom
}

// open gets the memory, in huge pages if there are any: for each page the kernel has words that
// both ends write, 4 µs a batch.
func (l *lender) open() error {
	if !l.piped {
		if err := unix.Pipe2(l.pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return os.NewSyscallError("pipe2", err)
		}
		l.piped = true
	}
	if l.whole != nil {
		return nil
	}
	const huge = 2 << 20
	whole, err := unix.Mmap(-1, 0, limits.LentBytes+huge, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	at := -uintptr(unsafe.Pointer(&whole[0])) & (huge - 1)
	l.whole, l.memory, l.next = whole, whole[at:][:limits.LentBytes], 0
	_ = unix.Madvise(l.memory, unix.MADV_HUGEPAGE) // small ones do as well
	return nil
}

// close unmaps the memory.
func (l *lender) close() {
	l.closePipe()
	if l.whole != nil {
		_ = unix.Munmap(l.whole) // it cannot fail for a whole mapping
	}
	l.whole, l.memory, l.stale = nil, nil, false
}

func (l *lender) closePipe() {
	if l.piped {
		unix.Close(l.pipe[0])
		unix.Close(l.pipe[1])
	}
	l.piped = false
}

// pass hands b, a part of the lent memory, to a socket. It returns how many bytes were taken.
func (l *lender) pass(fd int, b []byte) (n int, errno unix.Errno) {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	in, _, errno := unix.RawSyscall6(unix.SYS_VMSPLICE, uintptr(l.pipe[1]), uintptr(unsafe.Pointer(&v)), 1,
		unix.SPLICE_F_NONBLOCK, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if in != uintptr(len(b)) { // a user with many pipes gets small ones
		l.closePipe()
		return 0, unix.ENOSPC
	}
	out, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(l.pipe[0]), 0, uintptr(fd), 0, in,
		unix.SPLICE_F_NONBLOCK)
	if errno != 0 {
		l.closePipe() // and drops what is left in it
		return 0, errno
	}
	return int(out), 0
}

// room returns the memory of the next batch.
func (l *lender) room() []byte { return l.memory[l.next:][:lentRoom] }

// advance moves the next batch behind one of so many bytes.
func (l *lender) advance(bytes int) {
	if l.next += (bytes + lentPage - 1) &^ (lentPage - 1); l.next+lentRoom > len(l.memory) {
		l.next = 0
	}
}

// stageLent moves the stage, which is empty, to the memory from which up to n frames of a length
// will be lent, if lending is likely.
func (d *Driver) stageLent(to link.Addr, size, n int) {
	s := &d.sock
	if o := &s.direct; !o.turned || o.peer != to || s.lent.memory == nil || !s.offload.batches(to) {
		return
	}
	if size <= d.mtu && s.lent.lends(min(n, stageFrames, lentRoom/size)*size) && s.lent.copier.Plain() {
		d.out.move(s.lent.room())
	}
}

// lend makes the direct socket send the first prepared batch from lent memory. ok is false if
// the kernel has not taken it; then it must be sent by copying.
func (d *Driver) lend(size int) (n int, errno unix.Errno, ok bool) {
	l, out := &d.sock.lent, &d.sock.out
	if err := l.open(); err != nil {
		d.lendNoMore(err)
		return 0, 0, false
	}
	if errno := d.sock.cut(size); errno != 0 {
		d.lendNoMore(errno)
		return 0, 0, false
	}
	v := &out.vectors[0]
	batch := unsafe.Slice(v.Base, v.Len)
	room := batch
	if !d.out.away {
		room = l.room()[:len(batch)]
		l.copier.Copy(room, batch)
	}
	d.counters.SystemCalls += 2
	sent, errno := l.pass(d.sock.direct.fd, room)
	switch errno {
	case 0:
		d.lentOut(sent, len(batch))
		return out.frames[0], 0, true
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		l.full = true
		return out.frames[0], errno, true
	}
	if l.failed++; l.failed == lendTries {
		d.lendNoMore(errno)
	}
	return 0, 0, false
}

// lentOut notes that a batch has left. If the kernel takes only a part of it, which the
// self-test would have shown, lending ends; the rest counts as lost later.
func (d *Driver) lentOut(sent, size int) {
	l, out := &d.sock.lent, &d.sock.out
	l.advance(size)
	l.failed = 0
	d.countBatch(out.frames[0])
	d.stats.Direct += uint64(out.frames[0])
	d.stats.Lent += uint64(out.frames[0])
	if sent != size {
		// It may wait for the rest.
		_ = unix.SetsockoptInt(d.sock.direct.fd, unix.IPPROTO_UDP, unix.UDP_CORK, 0)
		d.lendNoMore(fmt.Errorf("the kernel took %d of %d bytes", sent, size))
	}
}

// lendNoMore ends lending.
func (d *Driver) lendNoMore(why error) {
	d.sock.lent.able = false
	d.returnLent()
	d.say(fmt.Sprintf(
		"the kernel copies large batches from now on, since it does not send them out of this program's memory: %v",
		why))
}

// cut makes the direct socket cut everything that it sends into frames of size bytes, or leave
// it as it is (0).
func (s *socket) cut(size int) unix.Errno {
	if s.lent.size == size {
		return 0
	}
	value := int32(size)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(s.direct.fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT,
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
	if errno == 0 {
		s.lent.size = size
	}
	return errno
}

// testLending tries lending, with the test's own socket. The caller closes that.
func (d *Driver) testLending() error {
	s := &d.sock
	var name sockaddr
	size, _ := name.set(d.addr, s.six, &s.zones)
	if err := connect(s.fd, &name, size); err != nil {
		return os.NewSyscallError("connect", err)
	}
	s.lent = lender{able: true}
	s.direct = direct{fd: s.fd, own: name, size: size, turned: true, peer: d.addr, lead: limits.DirectAfter}
	defer func() {
		s.lent.close()
		s.direct = direct{fd: -1}
	}()
	d.stats = Stats{}
	if err := d.testRound(); err != nil {
		return fmt.Errorf("sending a batch out of this program's memory: %w", err)
	}
	if d.stats.Lent == 0 {
		return errors.New("the kernel did not take a batch out of this program's memory")
	}
	return nil
}

// lentTo notes the peer whose frames lie in the lent memory from now on.
func (d *Driver) lentTo(before, now link.Addr) {
	if before != now {
		d.returnLent()
	}
}

// returnLent unmaps the memory, at once or as soon as no frame is staged there.
func (d *Driver) returnLent() {
	if d.sock.lent.stale = d.out.away; !d.out.away {
		d.sock.lent.close()
	}
}
