package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// steering is the program on the interface, with its table of sockets.
type steering struct {
	sockets  *ebpf.Map
	program  *ebpf.Program
	attached link.Link
	spec     *ebpf.ProgramSpec // the program without a chain
	vlan     uint16
	on       *ebpf.Program // passes a frame of the chain to its socket
}

// attach makes the table of sockets and attaches the program to the interface.
func (d *Driver) attach(generic bool, at place) (err error) {
	s := &d.steer
	s.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Name: "weft_sockets", Type: ebpf.XSKMap,
		KeySize: 4, ValueSize: 4, MaxEntries: uint32(max(at.rxQueue, len(d.queues)))})
	if err != nil {
		return unavailable(fmt.Errorf("making the table of sockets: %w", err))
	}
	for n, q := range d.queues {
		if err := s.sockets.Put(uint32(n), uint32(q.fd)); err != nil {
			return unavailable(fmt.Errorf("entering the socket of queue %d: %w", n, err))
		}
	}
	spec := &ebpf.ProgramSpec{Name: "weft_steer", Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: steer(s.sockets.FD(), d.addr, at.vlan, nil)}
	s.spec, s.vlan = spec, at.vlan
	if generic {
		return s.put(spec, at, link.XDPGenericMode)
	}
	err = s.put(spec, at, link.XDPDriverMode)
	if refusedForLength(err) {
		spec.Flags = unix.BPF_F_XDP_HAS_FRAGS
		inPieces := s.put(spec, at, link.XDPDriverMode)
		switch {
		case inPieces == nil:
			return nil
		case inPieces.Error() != err.Error():
			return fmt.Errorf("%w; with frames in pieces: %w", err, inPieces)
		}
	}
	return err
}

// refusedForLength reports whether a driver may have refused a program because the program takes
// frames only in one piece, and the interface's frames may be longer. The limit depends on the
// buffers of each driver, and so does the error.
func refusedForLength(err error) bool {
	return errors.Is(err, unix.ERANGE) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// put loads the program and attaches it. If it cannot be attached, put unloads it.
func (s *steering) put(spec *ebpf.ProgramSpec, at place, mode link.XDPAttachFlags) (err error) {
	if s.program, err = ebpf.NewProgram(spec); err != nil {
		return unavailable(fmt.Errorf("loading the program: %w", err))
	}
	s.attached, err = link.AttachXDP(link.XDPOptions{Program: s.program, Interface: at.lower, Flags: mode})
	if err == nil {
		return nil
	}
	err = errors.Join(notAttached(err, at), s.program.Close())
	s.program = nil
	return err
}

// linearMTU is the largest MTU whose frames are in one piece with most drivers, among them veth:
// a page, minus the kernel's room before and behind a frame.
const (
	linearMTU  = chunkBytes - chunkSpare - linearTail - ethernetLen
	linearTail = 320
)

// notAttached returns an error that explains why the kernel did not attach the program.
func notAttached(err error, at place) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%w: the interface has another XDP program: %w", ErrUnavailable, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: its driver has no native XDP (generic mode is there for those who ask for it): %w",
			ErrUnavailable, err)
	case errors.Is(err, unix.ERANGE):
		return fmt.Errorf(
			"%w: its MTU of %d, or that of one below it or at the other end of a veth, "+
				"is more than the driver allows with XDP; expected at most about %d, or Linux 5.18: %w",
			ErrUnavailable, at.mtu, linearMTU, err)
	}
	return unavailable(fmt.Errorf("attaching the program: %w", err))
}

// unavailable returns an error that names the missing right or kernel version, if that is the
// cause.
func unavailable(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w (needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF)", ErrUnavailable, err)
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ENOPROTOOPT), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w (needs Linux 5.9 or later, with CONFIG_XDP_SOCKETS)", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
