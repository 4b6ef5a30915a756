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

// lender has the kernel send large batches out of memory that it can read, in place of copying them:
//
//	stage ┌──────┬──────┬──────┐   copied    ┌───────┬───────┬───────┬─ ─   vmsplice, splice   the receiver's
//	      └──────┴──────┴──────┘ ──────────► │ batch │ batch │       │     ──────────────────► recvmsg
//	                                         └───────┴───────┴───────┴─ ─
//
// Where the far end is on the same host, the kernel's copy is a third to two thirds of all that sending takes: it writes where another core
// has just read, and each line has first to be won back from that one's cache, 110 ns where the two are near and 500 where they are
// far apart. The copy that is made here instead goes round a ring that is larger than a core's cache, which is a fifth of the cost where they are
// near, and past the caches where they are far apart (internal/copier). The kernel takes the pages as they are.
//
// Where plain stores are the way, the stage moves into the ring for such a batch, so that its frames are written where they are lent: payload
// is copied once, while its checksum is made, and costs hardly more than either by itself.
//
// What is lent lies there until it has been read, which is not told. There is room for several times what a peer permits
// to be under way of long messages (limits.GrantedBytes), so that what is written over has come, or counts as lost; should it be on its way nevertheless, as
// at a peer that has not read for long, the checksums of its frames no longer hold, and it is sent again.
// Memory that was lent for one peer is not used for another: it is given back, and the system has it once it is not read any more.
type lender struct {
	able   bool   // the self-test has shown that it works
	why    error  // or what else it has shown
	least  int    // bytes of a batch that is worth while
	whole  []byte // the mapping; nil while there is none
	memory []byte // limits.LentBytes
	copier copier.Copier
	pipe   [2]int // that pages go through, from memory to socket
	piped  bool   // it is open
	next   int    // where the next batch begins: whole pages, with lentRoom behind it
	size   int    // of the frames that the direct socket cuts batches into; 0 if it sends what it gets
	failed int    // batches in a row that the kernel did not take so
	stale  bool   // the memory is to be given back once no frame is staged there
	full   bool   // a socket had no room for the last; to copy and lend each again until it has costs more than to have it copied
}

// lentRoom is the room of a batch: whole pages, of which the kernel takes sixteen at a time, of lentPage bytes each. Where pages are larger
// some are lent for two batches, which does no harm.
const (
	lentRoom = 64 << 10
	lentPage = 4 << 10
)

// lendTries is how many batches in a row the kernel may refuse until none is lent any more. One or two in between are about the
// network: a connected socket reports what became of earlier frames.
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

// open gets the memory, of huge pages if there are any: for each page there are words in the kernel which both ends write, 4 µs a batch.
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
	whole, err := unix.Mmap(-1, 0, limits.LentBytes+huge, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	at := -uintptr(unsafe.Pointer(&whole[0])) & (huge - 1)
	l.whole, l.memory, l.next = whole, whole[at:][:limits.LentBytes], 0
	_ = unix.Madvise(l.memory, unix.MADV_HUGEPAGE) // small ones do as well
	return nil
}

// close gives the memory back.
func (l *lender) close() {
	l.closePipe()
	if l.whole != nil {
		_ = unix.Munmap(l.whole) // it cannot fail of a whole mapping
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

// pass hands b, of the lent memory, to a socket. It returns how many bytes were taken.
func (l *lender) pass(fd int, b []byte) (n int, errno unix.Errno) {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	in, _, errno := unix.RawSyscall6(unix.SYS_VMSPLICE, uintptr(l.pipe[1]), uintptr(unsafe.Pointer(&v)), 1, unix.SPLICE_F_NONBLOCK, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if in != uintptr(len(b)) { // a user with many pipes gets small ones
		l.closePipe()
		return 0, unix.ENOSPC
	}
	out, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(l.pipe[0]), 0, uintptr(fd), 0, in, unix.SPLICE_F_NONBLOCK)
	if errno != 0 {
		l.closePipe() // and what is left in it
		return 0, errno
	}
	return int(out), 0
}

// room is where the next batch lies.
func (l *lender) room() []byte { return l.memory[l.next:][:lentRoom] }

// advance has the next batch lie behind one of so many bytes.
func (l *lender) advance(bytes int) {
	if l.next += (bytes + lentPage - 1) &^ (lentPage - 1); l.next+lentRoom > len(l.memory) {
		l.next = 0
	}
}

// stageLent has the stage, which is empty, move to where up to n frames of a length will be lent from, if they are likely to be.
func (d *Driver) stageLent(to link.Addr, size, n int) {
	s := &d.sock
	if o := &s.direct; !o.turned || o.peer != to || s.lent.memory == nil || !s.offload.batches(to) {
		return
	}
	if size <= d.mtu && s.lent.lends(min(n, stageFrames, lentRoom/size)*size) && s.lent.copier.Plain() {
		d.out.move(s.lent.room())
	}
}

// lend has the direct socket send the first prepared batch out of lent memory. It is not ok if the kernel has not taken it, and it is
// to be sent by copying.
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

// lentOut notes that a batch has left. A kernel that takes a part of it only, which the self-test would have shown, is
// lent nothing more; what has not left so counts as lost later.
func (d *Driver) lentOut(sent, size int) {
	l, out := &d.sock.lent, &d.sock.out
	l.advance(size)
	l.failed = 0
	d.countBatch(out.frames[0])
	d.stats.Direct += uint64(out.frames[0])
	d.stats.Lent += uint64(out.frames[0])
	if sent != size {
		_ = unix.SetsockoptInt(d.sock.direct.fd, unix.IPPROTO_UDP, unix.UDP_CORK, 0) // it may wait for the rest
		d.lendNoMore(fmt.Errorf("the kernel took %d of %d bytes", sent, size))
	}
}

// lendNoMore ends it.
func (d *Driver) lendNoMore(why error) {
	d.sock.lent.able = false
	d.returnLent()
	d.say(fmt.Sprintf("the kernel copies large batches from now on, since it does not send them out of this program's memory: %v", why))
}

// cut has the direct socket cut all that is sent by it into frames of size bytes, or leave it as it is (0).
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

// testLending tries it, by the test's own socket. The caller closes that.
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

// lentTo says whose frames lie in the lent memory from now on.
func (d *Driver) lentTo(before, now link.Addr) {
	if before != now {
		d.returnLent()
	}
}

// returnLent gives the memory back, or has it given back as soon as no frame is staged there.
func (d *Driver) returnLent() {
	if d.sock.lent.stale = d.out.away; !d.out.away {
		d.sock.lent.close()
	}
}
