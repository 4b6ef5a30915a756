package doctor

import (
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
// Offload tries a batch twice.

const (
	offloadPort   = 7 // Echo, a service without servers today
	offloadBytes  = 400
	offloadWithin = 150 * time.Millisecond
)

// Offload implements Host.
func (local) Offload(to netip.Addr) (lost bool, err error) {
	fd, err := openProber(to)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	for range 2 {
		switch n, err := probeBatch(fd); {
		case errors.Is(err, unix.EIO), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOPROTOOPT):
			return false, nil // the kernel has no offload here, and says so
		case err != nil || n > 0:
			return false, err
		}
	}
	n, err := probeSingles(fd)
	return err == nil && n >= 2, err
}

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

// probeBatch sends two datagrams in one send, and returns how many errors come back.
func probeBatch(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, offloadBytes); err != nil {
		return 0, err
	}
	if err := send(fd, 2*offloadBytes); err != nil {
		return 0, err
	}
	return errorsOn(fd)
}

// probeSingles sends two datagrams one by one, and returns how many errors come back.
func probeSingles(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0); err != nil {
		return 0, err
	}
	for range 2 {
		if err := send(fd, offloadBytes); err != nil {
			return 0, err
		}
	}
	return errorsOn(fd)
}

// send sends bytes. The kernel may first report an error of an earlier datagram; that error is
// in the error queue, too.
func send(fd, bytes int) error {
	b := make([]byte, bytes)
	for range 4 {
		_, err := unix.Write(fd, b)
		if !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
	}
	return unix.ECONNREFUSED
}

// errorsOn returns how many ICMP errors arrive at a socket, at most two.
func errorsOn(fd int) (n int, err error) {
	buf, control := make([]byte, 1), make([]byte, 512)
	for end := time.Now().Add(offloadWithin); n < 2 && time.Now().Before(end); {
		_, _, _, _, err := unix.Recvmsg(fd, buf, control, unix.MSG_ERRQUEUE)
		switch {
		case err == nil:
			n++
		case errors.Is(err, unix.EAGAIN):
			time.Sleep(time.Millisecond)
		default:
			return n, os.NewSyscallError("recvmsg", err)
		}
	}
	return n, nil
}
