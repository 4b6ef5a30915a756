package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/secure"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// A session is one attached process: its VNI, its memory, and the descriptors by which it rings
// and is woken.
//
//	attach: slot taken ─► memory, descriptors made ─► bell watched ─► New_Process ─►
//	        process told ─► served
//	end:    bell unwatched ─► Delete_Process: the engine releases it all ─► unmapped, closed ─►
//	        slot free
//
// Its goroutine is that of its connection. Fields that the loop reads too change only under the
// loop's lock.
type session struct {
	d    *Daemon
	name vni.Name
	pid  int
	uid  int
	life vni.Life
	slot uint16 // 0: none yet
	gen  uint32

	geometry vni.Geometry

	vni    *vniMemory
	kick   int    // eventfd: the process rings
	wakeUs [2]int // socket pair: our end, which wakes the process, and its end

	regions  map[uint32]*memory
	bytes    int64       // in regions
	expelled atomic.Bool // by the engine or for a fault; it is no longer served
}

// attach makes a VNI for a client and registers it.
func (d *Daemon) attach(c *ctl.Client, a *ctl.Attach) (*session, error) {
	name, err := vni.ParseName(a.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ctl.ErrBadRequest, err)
	}
	if err := d.jobs.mayClaim(c.Peer.UID, name); err != nil {
		return nil, err
	}
	life := vni.Life{Incarnation: a.Incarnation}
	if n := len(a.JobKey); n != 0 && n != len(life.Key) {
		return nil, fmt.Errorf("%w: a job key of %d bytes; expected %d", ctl.ErrBadRequest, n, len(life.Key))
	}
	copy(life.Key[:], a.JobKey)
	g, err := d.settings.choose(a.Geometry)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ctl.ErrBadRequest, err)
	}
	g.Colour = int(d.colour.Add(1)) % vni.Colours
	s := &session{d: d, name: name, pid: c.Peer.PID, uid: c.Peer.UID, life: life, geometry: g, kick: -1,
		wakeUs: [2]int{-1, -1}, regions: map[uint32]*memory{}}
	if s.slot, err = d.driver.Take(s.pid); err != nil {
		return nil, fmt.Errorf("%w: all %d have one", ctl.ErrNoSlot, d.settings.config.maxProcesses())
	}
	seg, err := s.make(g)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ctl.ErrNoMemory, err), s.release())
	}
	if err := s.register(seg); err != nil {
		return nil, errors.Join(sentinel(err), s.release())
	}
	return s, nil
}

// register registers the process with the engine.
func (s *session) register(seg *vni.Segment) (err error) {
	d := s.d
	d.loop.Do(func(clock.Time) { d.sessions[s.slot] = s })
	if err = d.loop.AddBell(s.kick, s.slot); err == nil {
		ctx, cancel := context.WithTimeout(d.ctx, registerWithin)
		defer cancel()
		var gen uint32
		if gen, err = d.driver.New(ctx, s.slot, s.pid, s.name,
			driver.Entry{VNI: seg, WakeUp: s.wake, User: secure.UserName(s.uid), Life: s.life}); err == nil {
			// Other goroutines read the table in the loop.
			d.loop.Do(func(clock.Time) { s.gen = gen })
			return nil
		}
		err = errors.Join(unconfirmed(err), d.loop.RemoveBell(s.kick))
	}
	s.forget()
	return err
}

// registerWithin is how long the NIC may take to accept a process: less than tools wait for the
// daemon. The NIC answers at its next poll, unless another NIC has to confirm the name.
const registerWithin = 4 * time.Second

// unconfirmed adds the cause to err if the NIC has not accepted a process in time.
func unconfirmed(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no NIC has confirmed the name of the process within %v; attach again",
			ctl.ErrNoAnswer, registerWithin)
	}
	return err
}

// forget removes the session from the loop's table.
func (s *session) forget() {
	s.d.loop.Do(func(clock.Time) { delete(s.d.sessions, s.slot) })
}

// make makes everything that the process will share with the NIC.
func (s *session) make(g vni.Geometry) (seg *vni.Segment, err error) {
	if s.vni, err = s.d.vnis.take(g); err != nil {
		return nil, err
	}
	if err = errors.Join(s.vni.rw.mayHave(s.uid), s.vni.ro.mayHave(s.uid)); err != nil {
		return nil, err
	}
	if s.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("eventfd: %w", explainFiles(err))
	}
	if s.wakeUs, err = unix.Socketpair(unix.AF_UNIX,
		unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		s.wakeUs = [2]int{-1, -1}
		return nil, fmt.Errorf("socket pair: %w", explainFiles(err))
	}
	if err = s.oneWay(); err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	return vni.NewSegment(s.vni.rw.mem, s.vni.ro.mem, g)
}

// oneWay restricts the wake socket to the direction to the process, and its buffer to a few
// bytes: the daemon never reads what the process puts into it, file descriptors included.
func (s *session) oneWay() error {
	// 1: the kernel raises this to its minimum.
	return errors.Join(unix.Shutdown(s.wakeUs[0], unix.SHUT_RD),
		unix.SetsockoptInt(s.wakeUs[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1))
}

// sentinel translates the engine's errors to those of package ctl.
func sentinel(err error) error {
	for _, t := range []struct{ is, becomes error }{
		{nic.ErrNameTaken, ctl.ErrNameTaken}, {nic.ErrSuperseded, ctl.ErrSuperseded},
		{context.Canceled, ctl.ErrNICGone},
		{nic.ErrNoRegion, ctl.ErrNoRegion}, {nic.ErrRegions, ctl.ErrNoMemory},
		{nic.ErrRegionBusy, ctl.ErrRegionBusy}, {nic.ErrNoProcess, ctl.ErrNoRegion}, {nic.ErrClosed, ctl.ErrNICGone},
	} {
		if errors.Is(err, t.is) {
			return fmt.Errorf("%w: %w", t.becomes, err)
		}
	}
	return err
}

// tell answers the attach request and hands over the process's ends. From then on only the
// mappings are ours.
func (s *session) tell(c *ctl.Client) error {
	g := s.geometry
	r := &ctl.Reply{Attached: &ctl.Attached{NIC: uint64(s.d.id), Slot: s.slot, Generation: s.gen,
		Geometry: ctl.Geometry{
			Commands: g.Commands, Contexts: g.Contexts, Descriptors: g.Descriptors, PoolPages: g.PoolPages}}}
	if err := c.Reply(r, s.vni.rw.fd, s.vni.ro.fd, s.kick, s.wakeUs[1]); err != nil {
		return err
	}
	err := errors.Join(s.vni.rw.shared(), s.vni.ro.shared(), unix.Close(s.wakeUs[1]))
	s.wakeUs[1] = -1
	return err
}

var oneByte = [1]byte{1}

// wake sends the process a byte, within Poll. It does not block: if there is no room, enough
// bytes are there already.
func (s *session) wake() {
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.wakeUs[0]), uintptr(unsafe.Pointer(&oneByte[0])), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// end ends the process, in any state.
func (s *session) end() error {
	err := errors.Join(s.d.loop.RemoveBell(s.kick), s.d.driver.Delete(s.slot))
	s.forget()
	return errors.Join(err, s.unshareAll(), s.release())
}

// release unmaps and closes everything of the session, and gives the slot back. The engine knows
// none of it any more. The process sees its wake socket end.
func (s *session) release() error {
	defer s.d.driver.GiveBack(s.slot)
	var errs []error
	for _, m := range s.regions {
		errs = append(errs, m.close())
	}
	if s.vni != nil {
		errs = append(errs, s.d.vnis.give(s.vni))
	}
	for _, fd := range []int{s.kick, s.wakeUs[0], s.wakeUs[1]} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// fault returns the address of a memory fault in the session's memory, or 0 if there was none.
// The loop calls it, with the lock held.
func (s *session) fault() uintptr {
	if at := cmp.Or(s.vni.rw.fault(), s.vni.ro.fault()); at != 0 {
		return at
	}
	for _, m := range s.regions { // order does not matter
		if at := m.fault(); at != 0 {
			return at
		}
	}
	return 0
}
