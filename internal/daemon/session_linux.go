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

// A session is one attached process: its VNI, its memory, and the descriptors it is rung by and woken by.
//
//	attach: slot taken ─► memory, descriptors made ─► bell watched ─► New_Process ─► told to the process ─► served
//	end:    bell no longer watched ─► Delete_Process: the engine lets go of everything ─► unmapped, closed ─► slot given back
//
// Its goroutine is its connection's. What the loop looks at too is changed under the loop's lock only.
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
	wakeUs [2]int // socket pair: ours, by which we wake the process, and the process's

	regions  map[uint32]*memory
	bytes    int64       // in regions
	expelled atomic.Bool // by the engine or for a fault; nothing more is served
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
	s := &session{d: d, name: name, pid: c.Peer.PID, uid: c.Peer.UID, life: life, geometry: g, kick: -1, wakeUs: [2]int{-1, -1}, regions: map[uint32]*memory{}}
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

// register makes the engine serve the process.
func (s *session) register(seg *vni.Segment) (err error) {
	d := s.d
	d.loop.Do(func(clock.Time) { d.sessions[s.slot] = s })
	if err = d.loop.AddBell(s.kick, s.slot); err == nil {
		ctx, cancel := context.WithTimeout(d.ctx, registerWithin)
		defer cancel()
		var gen uint32
		if gen, err = d.driver.New(ctx, s.slot, s.pid, s.name, driver.Entry{VNI: seg, WakeUp: s.wake, User: secure.UserName(s.uid), Life: s.life}); err == nil {
			d.loop.Do(func(clock.Time) { s.gen = gen }) // others look through the table in the loop
			return nil
		}
		err = errors.Join(unconfirmed(err), d.loop.RemoveBell(s.kick))
	}
	s.forget()
	return err
}

// registerWithin is how long the NIC may take to accept a process: less than tools wait for the daemon. It answers at its
// next poll, but for names that another NIC has to confirm.
const registerWithin = 4 * time.Second

// unconfirmed names the cause if the NIC has not accepted a process in time.
func unconfirmed(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no NIC has confirmed the name of the process within %v; attach again", ctl.ErrNoAnswer, registerWithin)
	}
	return err
}

// forget takes the session off the loop's table.
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
	if s.wakeUs, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		s.wakeUs = [2]int{-1, -1}
		return nil, fmt.Errorf("socket pair: %w", explainFiles(err))
	}
	if err = s.oneWay(); err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	return vni.NewSegment(s.vni.rw.mem, s.vni.ro.mem, g)
}

// oneWay makes the wake socket one that goes to the process only, and holds no more than a few bytes: the daemon never
// takes out what the process puts into it, file descriptors included.
func (s *session) oneWay() error {
	return errors.Join(unix.Shutdown(s.wakeUs[0], unix.SHUT_RD), unix.SetsockoptInt(s.wakeUs[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1)) // 1: the least there is
}

// sentinel translates the engine's refusals for the other side of the socket.
func sentinel(err error) error {
	for _, t := range []struct{ is, becomes error }{
		{nic.ErrNameTaken, ctl.ErrNameTaken}, {nic.ErrSuperseded, ctl.ErrSuperseded}, {context.Canceled, ctl.ErrNICGone},
		{nic.ErrNoRegion, ctl.ErrNoRegion}, {nic.ErrRegions, ctl.ErrNoMemory}, {nic.ErrRegionBusy, ctl.ErrRegionBusy}, {nic.ErrNoProcess, ctl.ErrNoRegion}, {nic.ErrClosed, ctl.ErrNICGone},
	} {
		if errors.Is(err, t.is) {
			return fmt.Errorf("%w: %w", t.becomes, err)
		}
	}
	return err
}

// tell answers the attach and gives away the process's ends. From then on only the mappings are ours.
func (s *session) tell(c *ctl.Client) error {
	g := s.geometry
	r := &ctl.Reply{Attached: &ctl.Attached{NIC: uint64(s.d.id), Slot: s.slot, Generation: s.gen, Geometry: ctl.Geometry{
		Commands: g.Commands, Contexts: g.Contexts, Descriptors: g.Descriptors, PoolPages: g.PoolPages}}}
	if err := c.Reply(r, s.vni.rw.fd, s.vni.ro.fd, s.kick, s.wakeUs[1]); err != nil {
		return err
	}
	err := errors.Join(s.vni.rw.shared(), s.vni.ro.shared(), unix.Close(s.wakeUs[1]))
	s.wakeUs[1] = -1
	return err
}

var oneByte = [1]byte{1}

// wake sends the process a byte, within Poll. It does not block: if there is no room, bytes enough are there already.
func (s *session) wake() {
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.wakeUs[0]), uintptr(unsafe.Pointer(&oneByte[0])), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// end lets the process go, whatever state it is in.
func (s *session) end() error {
	err := errors.Join(s.d.loop.RemoveBell(s.kick), s.d.driver.Delete(s.slot))
	s.forget()
	return errors.Join(err, s.unshareAll(), s.release())
}

// release unmaps, closes, and gives the slot back. The engine knows none of it any more. The process sees its wake socket
// end.
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

// fault is the address of the first memory fault in the session's memory; 0 if there was none. Called by the loop, with the lock held.
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
