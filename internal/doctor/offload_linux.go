package doctor

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Offload needs no program on the other host. It sends to a port without a listener, and counts the
// ICMP errors that the kernel there returns for its datagrams:
//
//	one send of two datagrams (GSO) ──► network card cuts it ──► an error: it works
//	two sends of one datagram each ────────────────────────────► two errors: the host answers
//
// A batch that stays whole up to the other kernel, as on a veth, gets one error. Hosts bound the
// rate of such errors, so Offload sends few datagrams. A path may lose datagrams at random, so
// Offload tries a batch twice. An error may arrive during a later probe. It returns the beginning
// of its datagram, and the first byte identifies the probe.

const (
	offloadPort   = 7 // Echo, a service without servers today
	offloadBytes  = 400
	offloadWithin = 150 * time.Millisecond
)

// These are the first bytes of the datagrams of each probe.
const (
	firstBatch byte = iota
	secondBatch
	singles
	offloadProbes
)

// prober is a socket that counts the errors about the datagrams of each probe.
type prober struct {
	fd     int
	errors [offloadProbes]int
}

// Offload implements Host.
func (local) Offload(to netip.Addr) (lost bool, err error) {
	fd, err := openProber(to)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	p := &prober{fd: fd}
	for _, batch := range []byte{firstBatch, secondBatch} {
		switch err := p.batch(batch); {
		case errors.Is(err, unix.EIO), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOPROTOOPT):
			return false, nil // the kernel has no offload here, and says so
		case err != nil:
			return false, err
		}
		if err := p.await(batch, 1, time.Now().Add(offloadWithin)); err != nil || p.works() {
			return false, err
		}
	}
	if err = p.singles(); err == nil {
		err = p.await(singles, 2, time.Now().Add(offloadWithin))
	}
	return err == nil && !p.works() && p.errors[singles] >= 2, err
}

// works reports whether a datagram of a batch has arrived at the other host.
func (p *prober) works() bool { return p.errors[firstBatch]+p.errors[secondBatch] > 0 }

// openProber returns a socket that reports the ICMP errors about its datagrams.
func openProber(to netip.Addr) (fd int, err error) {
	var at unix.Sockaddr = &unix.SockaddrInet4{Port: offloadPort, Addr: [4]byte(to.AsSlice()[:4])}
	family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_RECVERR
	if to.Is6() {
		six := &unix.SockaddrInet6{Port: offloadPort, Addr: to.As16()}
		if in, err := net.InterfaceByName(to.Zone()); err == nil {
			six.ZoneId = uint32(in.Index)
		}
		at = six
		family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = unix.SetsockoptInt(fd, level, option, 1); err == nil {
		err = unix.Connect(fd, at)
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// batch sends two datagrams in one send.
func (p *prober) batch(which byte) error {
	if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, offloadBytes); err != nil {
		return err
	}
	return p.send(which, 2*offloadBytes)
}

// singles sends two datagrams one by one.
func (p *prober) singles() error {
	if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0); err != nil {
		return err
	}
	return errors.Join(p.send(singles, offloadBytes), p.send(singles, offloadBytes))
}

// send sends bytes of a probe. An error of an earlier datagram may be reported first; it is in the
// error queue, too.
func (p *prober) send(which byte, n int) error {
	b := bytes.Repeat([]byte{which}, n)
	for range 4 {
		_, err := unix.Write(p.fd, b)
		if !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
	}
	return unix.ECONNREFUSED
}

// await counts the errors that arrive until there are some of one probe, or until end. It counts
// those that are there at end, however late it is called.
func (p *prober) await(which byte, some int, end time.Time) error {
	for {
		late := !time.Now().Before(end)
		if err := p.count(); err != nil || late || p.errors[which] >= some {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// count counts the errors that have arrived. It ignores those without the beginning of their
// datagram.
func (p *prober) count() error {
	buf, control := make([]byte, 1), make([]byte, 512)
	for {
		n, _, _, _, err := unix.Recvmsg(p.fd, buf, control, unix.MSG_ERRQUEUE)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return os.NewSyscallError("recvmsg", err)
		case n == 1 && buf[0] < offloadProbes:
			p.errors[buf[0]]++
		}
	}
}
