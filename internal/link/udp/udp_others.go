//go:build !linux || portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// socket is a UDP socket of package net. With package net one cannot check for a datagram
// without waiting. So a goroutine reads ahead into a ring of slots, and Poll takes from there:
//
//	slots ┌──────┬──────┬──────┬──────┬──────┐
//	      │ free │ read │ read │ now… │ free │ [head, head+count) is Poll's, the next the reader's
//	      └──────┴──────┴──────┴──────┴──────┘
//
// While all slots are full the reader waits, and the kernel's buffer fills. The system decides
// about the don't-fragment bit.
type socket struct {
	conn          *net.UDPConn
	six           bool
	mtu           int
	receiveBuffer int
	slots         []slot
	finished      chan struct{} // closed when the reader has ended

	// Slots that were read into. It is changed under mu and read without it: an idle Poll costs
	// one load.
	count  atomic.Int32
	mu     sync.Mutex // guards the fields below
	room   sync.Cond  // signals that count has fallen, or closed is set
	head   int
	errs   uint64 // errors of reading
	wake   func()
	closed bool
}

// slot holds one datagram. Its buffer is one byte longer than the MTU, so that a longer datagram
// shows.
type slot struct {
	buf  []byte
	size int
	from link.Addr
}

// Caps implements link.Driver.
func (d *Driver) Caps() link.Caps {
	return link.Caps{ReserveRun: d.ReserveRun, CommitRun: d.CommitRun, ReceiveBuffer: d.ReceiveBuffer, Notify: d.Notify}
}

// arenaBytes bounds the memory of the slots.
const arenaBytes = 1 << 20

func (s *socket) open(cfg Config, mtu int) error {
	network := "udp4"
	if s.six = cfg.Addr.Addr().Is6(); s.six {
		network = "udp6"
	}
	if cfg.Addr.Addr() == netip.IPv6Unspecified() {
		network = "udp" // both families, if the host has them
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(cfg.Addr))
	if err != nil {
		return err
	}
	s.conn, s.mtu = conn, mtu
	// Systems refuse more than they permit instead of granting less, so request ever less.
	for want := cfg.SocketBuffer; want >= 64<<10; want /= 2 {
		if conn.SetReadBuffer(want) == nil {
			s.receiveBuffer = want
			break
		}
	}
	for want := cfg.SocketBuffer; want >= 64<<10 && conn.SetWriteBuffer(want) != nil; want /= 2 {
	}
	s.slots = make([]slot, min(max(arenaBytes/(mtu+1), 8), 4*limits.PollBatch))
	for i := range s.slots {
		s.slots[i].buf = make([]byte, mtu+1)
	}
	s.room.L = &s.mu
	s.finished = make(chan struct{})
	go s.read()
	return nil
}

// read fills slots until the socket is closed.
func (s *socket) read() {
	defer close(s.finished)
	for {
		slot := s.freeSlot()
		if slot == nil {
			return
		}
		n, from, err := s.conn.ReadFromUDPAddrPort(slot.buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// A peer's host refused a frame, on some systems. Any other error must not keep a
			// core busy either.
			s.mu.Lock()
			s.errs++
			s.mu.Unlock()
			time.Sleep(time.Millisecond)
			continue
		}
		slot.size, slot.from = n, netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		s.publish()
	}
}

// freeSlot waits for a slot to read into. It returns nil once the socket is closed.
func (s *socket) freeSlot() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for int(s.count.Load()) == len(s.slots) && !s.closed {
		s.room.Wait()
	}
	if s.closed {
		return nil
	}
	return &s.slots[(s.head+int(s.count.Load()))%len(s.slots)]
}

// publish hands the slot that was read into to Poll.
func (s *socket) publish() {
	s.mu.Lock()
	first, wake := s.count.Add(1) == 1, s.wake
	s.mu.Unlock()
	if first && wake != nil {
		wake()
	}
}

// Notify implements link.Caps.
func (d *Driver) Notify(wake func()) {
	s := &d.sock
	s.mu.Lock()
	s.wake = wake
	waiting := s.count.Load() > 0
	s.mu.Unlock()
	if waiting && wake != nil {
		wake()
	}
}

func (d *Driver) receive(now clock.Time, to link.Receiver) int {
	s := &d.sock
	n := min(int(s.count.Load()), limits.PollBatch)
	if n == 0 {
		return 0
	}
	frames := 0
	for i := 0; i < n && !d.closed; i++ {
		slot := &s.slots[(s.head+i)%len(s.slots)] // only Poll moves head
		if slot.size > s.mtu {
			d.stats.Oversize++
			continue
		}
		d.counters.SystemCalls++
		d.hand(now, to, slot.from, slot.buf[:slot.size])
		frames++
	}
	s.mu.Lock()
	s.head = (s.head + n) % len(s.slots)
	s.count.Add(int32(-n))
	d.stats.Refused, s.errs = d.stats.Refused+s.errs, 0
	s.mu.Unlock()
	s.room.Signal()
	return frames
}

// transmit sends the staged frames. Package net waits for room if the kernel has none; systems
// other than Linux return ENOBUFS instead, and then the rest stays staged.
func (d *Driver) transmit() {
	for d.out.pending() > 0 {
		f := &d.out.waiting()[0]
		d.counters.SystemCalls++
		_, err := d.sock.conn.WriteToUDPAddrPort(d.out.buf[f.off:f.end()], d.out.addr(f))
		switch {
		case errors.Is(err, syscall.ENOBUFS):
			d.stats.Blocked++
			return
		case errors.Is(err, syscall.EMSGSIZE):
			d.stats.TooBig++
		case errors.Is(err, syscall.ECONNREFUSED):
			d.stats.Refused++
			d.stats.Unsendable++
		case err != nil:
			d.stats.Unsendable++
			var errno syscall.Errno
			if errors.As(err, &errno) {
				d.refusedBySystem(d.out.addr(f), errno)
			}
		case len(d.unsent) > 0:
			d.left(d.out.addr(f))
		}
		d.out.done(1)
	}
}

// chooseOffload returns why there is no offload: package net neither sends nor receives batches.
func (d *Driver) chooseOffload(Config) string { return "no segmentation offload on this system" }

// more reports whether a Poll now would find frames: nothing else announces frames that are left
// in the ring.
func (s *socket) more() bool { return s.count.Load() > 0 }

func (s *socket) explain(want int) string {
	if s.receiveBuffer >= want {
		return fmt.Sprintf("receive buffer %d KiB", s.receiveBuffer>>10)
	}
	return fmt.Sprintf("receive buffer only %d KiB of %d: for more, sysctl -w kern.ipc.maxsockbuf=%d (macOS, BSD)",
		s.receiveBuffer>>10, want>>10, 2*want)
}

// addDirect makes no direct socket: package net cannot direct only the frames of one peer to it.
func (s *socket) addDirect(Config, link.Addr) (why string) { return "" }

func (s *socket) localAddr() link.Addr {
	a := s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// overrun is unknown here.
func (s *socket) overrun() uint64 { return 0 }

func (s *socket) close() error {
	s.mu.Lock()
	s.closed, s.wake = true, nil
	s.mu.Unlock()
	s.room.Broadcast()
	err := s.conn.Close()
	<-s.finished
	return err
}

// stageLent does nothing: no memory is lent here.
func (d *Driver) stageLent(link.Addr, int, int) {}
