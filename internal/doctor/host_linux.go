package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/cgroup"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/userfault"
)

// xdpQueueBytes is the memory that AF_XDP locks for each queue.
const xdpQueueBytes = xdp.QueueBytes

const (
	probeWithin = 200 * time.Millisecond // an error of the network arrives sooner, if it arrives
	toolWithin  = 2 * time.Second
)

// local is the host of this process.
type local struct{}

// NewHost returns the host of this process.
func NewHost() (Host, error) { return local{}, nil }

func (local) Root() bool     { return os.Geteuid() == 0 }
func (local) Now() time.Time { return time.Now() }

func (local) Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostRead))
}

func (local) List(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (local) Target(path string) (string, error) { return os.Readlink(path) }

func (local) Has(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

func (local) Output(command ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		err = fmt.Errorf("%s: %w: %.200s", command[0], err, e.Stderr)
	}
	return out, err
}

func (local) Buffers(want int) (receive, send int, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	granted := func(option int) (int, error) {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, want); err != nil {
			return 0, os.NewSyscallError("setsockopt", err)
		}
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		return got / 2, os.NewSyscallError("getsockopt", err) // the kernel returns the double
	}
	if receive, err = granted(unix.SO_RCVBUF); err == nil {
		send, err = granted(unix.SO_SNDBUF)
	}
	return receive, send, err
}

func (local) Bind(at netip.AddrPort) error {
	network := "udp4"
	if at.Addr().Is6() {
		network = "udp6"
	}
	if at.Addr() == netip.IPv6Unspecified() {
		network = "udp" // both families, as the link does
	}
	c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	return c.Close()
}

func (local) Probe(at netip.AddrPort) error {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte{0}); err != nil {
		return err
	}
	return refusal(c, time.Now().Add(probeWithin))
}

// refusal returns the error that the network reports about a datagram until a time, or nil. An
// error that is pending at that time counts.
func refusal(c *net.UDPConn, end time.Time) error {
	if err := c.SetReadDeadline(end); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var number int
	if cerr := raw.Control(func(fd uintptr) {
		number, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	}); cerr != nil || err != nil {
		return errors.Join(cerr, err)
	}
	if number != 0 {
		return unix.Errno(number)
	}
	return nil
}

func (local) Route(to netip.Addr) (string, netip.Addr, error) {
	own := to
	if !to.IsUnspecified() {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		if err != nil {
			return "", netip.Addr{}, err
		}
		defer c.Close()
		own = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	}
	all, err := net.Interfaces()
	if err != nil {
		return "", netip.Addr{}, err
	}
	for i := range all {
		if addresses, err := all[i].Addrs(); err == nil && holds(addresses, own) {
			return all[i].Name, own, nil
		}
	}
	return "", netip.Addr{}, fmt.Errorf("no interface has the address %v, by which frames for %v leave", own, to)
}

// holds reports whether an address is among those of an interface.
func holds(addresses []net.Addr, own netip.Addr) bool {
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(own.WithZone("").AsSlice()) {
			return true
		}
	}
	return false
}

func (local) Userfault() (bool, error) { return userfault.Available() }

func (local) XDP(at netip.Addr, generic bool) error {
	if at.IsUnspecified() {
		sole, err := xdp.Sole(at)
		if err != nil {
			return err
		}
		at = sole.Addr
	}
	d, err := xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(at, 0), Generic: generic})
	if err != nil {
		return err
	}
	return d.Close()
}

func (local) CPUGroups(pid string) ([]string, error) { return cgroup.CPU(pid) }
