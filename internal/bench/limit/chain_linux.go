package limit

import (
	"encoding/binary"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A chain is the way of a message between two processes with NIC daemons. Its relays lack
// everything that makes a NIC:
//
//	process 0 ──memory──► relay 1 ──wire──► relay 2 ──memory──► process 3 ─┐
//	    ▲                                                                  │
//	    └───memory──── relay 1 ◄──wire─── relay 2 ◄──memory────────────────┘
//
// Processes sleep in a futex, relays in poll, on their socket and an eventfd.

// mailbox holds one message at a time, one way between a process and its relay.
type mailbox struct {
	word   *uint64 // number of the message in the mailbox
	sleeps *uint32 // its taker sleeps, or is about to
	data   []byte
	bell   int // eventfd of the relay that takes it; -1: a process takes it
	seen   uint64
}

const mailHead = 256

// mail returns the mailboxes of a host: to its relay, and from it.
func (c *child) mail(host int) (to, from *mailbox) {
	box := func(i, bell int) *mailbox {
		m := c.mem[i*len(c.mem)/4&^4095:]
		return &mailbox{
			word: (*uint64)(unsafe.Pointer(&m[0])), sleeps: (*uint32)(unsafe.Pointer(&m[128])),
			data: m[mailHead : mailHead+max(c.Size, numberBytes)], bell: bell,
		}
	}
	return box(2*host, c.events[host]), box(2*host+1, -1)
}

// post publishes message n, whose bytes are in the mailbox already.
func (m *mailbox) post(n uint64) {
	atomic.StoreUint64(m.word, n)
	if atomic.LoadUint32(m.sleeps) == 0 {
		return
	}
	if m.bell >= 0 {
		signal(m.bell)
		return
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(m.word)), futexWake, 1, 0, 0, 0)
}

// come returns the number of the message in the mailbox, and reports whether it is new.
func (m *mailbox) come() (n uint64, ok bool) {
	n = atomic.LoadUint64(m.word)
	ok = n != m.seen
	m.seen = n
	return n, ok
}

// yields is how long a role with yieldThenBlock yields: several round trips.
const yields = 100 * time.Microsecond

// idler decides what an idle role does.
type idler struct {
	how   waiting
	since time.Time
}

// worked is called when the role had something to do.
func (i *idler) worked() { i.since = time.Time{} }

// rest yields or returns at once, as the role waits. It reports whether the role should sleep.
func (i *idler) rest() (sleep bool) {
	switch i.how {
	case blocking:
		return true
	case yielding:
		yield()
	case yieldThenBlock:
		now := time.Now()
		if i.since.IsZero() {
			i.since = now
		}
		if now.Sub(i.since) > yields {
			return true
		}
		yield()
	}
	return false
}

// wait waits for a message. It returns false if none comes in time.
func (m *mailbox) wait(i *idler) (n uint64, ok bool) {
	defer i.worked()
	for looks := 1; ; looks++ {
		if n, ok := m.come(); ok {
			return n, true
		}
		if i.rest() && !m.sleep() || looks%(1<<20) == 0 {
			return 0, false
		}
	}
}

// sleep sleeps in the futex of a mailbox. It returns false if no message has come in time.
func (m *mailbox) sleep() bool {
	atomic.StoreUint32(m.sleeps, 1)
	defer atomic.StoreUint32(m.sleeps, 0)
	if atomic.LoadUint64(m.word) != m.seen {
		return true
	}
	timeout := unix.NsecToTimespec(int64(resend))
	// The kernel compares the lower half of the word.
	_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(m.word)), futexWait, uintptr(uint32(m.seen)),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
	return errno != unix.ETIMEDOUT
}

// chainFirst measures round trips along the chain.
func chainFirst(how waiting) func(*child) error {
	return func(c *child) error {
		to, from := c.mail(0)
		out, in := c.message(), c.message()
		i := &idler{how: how}
		n := uint64(0)
		return c.time(1, func() error {
			for {
				n++
				copy(to.data, out)
				to.post(n)
				for {
					got, ok := from.wait(i)
					if got == n {
						copy(in, from.data)
						return nil
					}
					if !ok {
						break
					}
				}
			}
		})
	}
}

// chainLast returns every message.
func chainLast(how waiting) func(*child) error {
	return func(c *child) error {
		to, from := c.mail(1)
		b := c.message()
		i := &idler{how: how}
		if err := c.ready(0); err != nil {
			return err
		}
		for {
			if n, ok := from.wait(i); ok {
				copy(b, from.data)
				copy(to.data, b)
				to.post(n)
			}
		}
	}
}

// chainMiddle carries messages between the mailboxes of the two processes of one relay:
//
//	process 0 ──memory──► relay 1 ──memory──► process 2 ─┐
//	    ▲                                                │
//	    └───memory──── relay 1 ◄──memory─────────────────┘
func chainMiddle(how waiting) func(*child) error {
	return func(c *child) error {
		var to, from [2]*mailbox
		for i := range to {
			to[i], from[i] = c.mail(i)
		}
		if err := c.ready(0); err != nil {
			return err
		}
		for i := (&idler{how: how}); ; {
			worked := false
			for at := range to {
				if n, ok := to[at].come(); ok {
					copy(from[1-at].data, to[at].data)
					from[1-at].post(n)
					worked = true
				}
			}
			if worked {
				i.worked()
			} else if i.rest() {
				if err := sleepFor(to[:], to[0].bell, to[1].bell); err != nil {
					return err
				}
			}
		}
	}
}

// chainRelay carries messages between the mailboxes of a host and a wire.
func chainRelay(how waiting, host int, open func(*child) (wire, error)) func(*child) error {
	return func(c *child) error {
		w, err := open(c)
		if err != nil {
			return err
		}
		if host == 0 {
			if err := c.ready(0); err != nil {
				return err
			}
		}
		r := &relay{wire: w, idle: idler{how: how}, bell: c.events[host]}
		r.to, r.from = c.mail(host)
		for {
			if err := r.turn(); err != nil {
				return err
			}
		}
	}
}

// relayLooks is how often a relay checks its wire before it lets its process run. A check is
// cheaper than two switches between them.
const relayLooks = 4

type relay struct {
	wire
	to, from *mailbox
	idle     idler
	bell     int
	n        uint64 // of the message that comes in pieces
	got      int
}

// turn checks both sides once.
func (r *relay) turn() error {
	n, ok := r.to.come()
	if ok {
		number(r.to.data, r.piece(), n)
		if err := r.send(r.to.data); err != nil {
			return err
		}
	}
	var b []byte
	looks := relayLooks
	if r.idle.how == blocking { // poll checks it
		looks = 1
	}
	for i := 0; i < looks && len(b) == 0; i++ {
		var err error
		if b, err = r.receive(); err != nil {
			return err
		}
	}
	if len(b) >= numberBytes {
		r.take(b)
	}
	if ok || len(b) > 0 {
		r.idle.worked()
		if r.idle.how == yielding || r.idle.how == yieldThenBlock {
			yield() // the process has something to do now, or soon
		}
		return nil
	}
	if r.idle.rest() {
		return r.sleep()
	}
	return nil
}

// take copies a piece of a message to its place, and posts a message that is complete.
func (r *relay) take(b []byte) {
	if n := binary.LittleEndian.Uint64(b); n != r.n {
		r.n, r.got = n, 0
	}
	if r.got < len(r.from.data) {
		r.got += copy(r.from.data[r.got:], b)
		if r.got == len(r.from.data) && r.n > 0 { // number 0 is only a hello
			r.from.post(r.n)
		}
	}
}

// sleep sleeps until a side has a message.
func (r *relay) sleep() error { return sleepFor([]*mailbox{r.to}, r.fd(), r.bell) }

// sleepFor sleeps until one of the mailboxes has a message, or one of two file descriptors can
// be read. It reads those that are bells of mailboxes.
func sleepFor(boxes []*mailbox, one, other int) error {
	for _, m := range boxes {
		atomic.StoreUint32(m.sleeps, 1)
		defer atomic.StoreUint32(m.sleeps, 0)
	}
	for _, m := range boxes {
		if atomic.LoadUint64(m.word) != m.seen {
			return nil
		}
	}
	fds := [2]unix.PollFd{{Fd: int32(one), Events: unix.POLLIN}, {Fd: int32(other), Events: unix.POLLIN}}
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 2, 0, 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return errno
	}
	for _, fd := range fds {
		for _, m := range boxes {
			if fd.Revents != 0 && int(fd.Fd) == m.bell {
				var b [8]byte
				if err := await(m.bell, &b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
