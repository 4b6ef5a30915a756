package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/udp"
)

// place describes where an address lives: its interface, and the interface below through which
// frames come.
type place struct {
	name    string
	index   int // of the interface with the address
	lower   int // of the interface below a VLAN, else index
	vlan    uint16
	hw      mac
	mtu     int
	rxQueue int
}

// listen returns a driver on the interface that has an address of this host.
func listen(cfg Config) (d *Driver, err error) {
	at, err := find(cfg.Addr.Addr())
	if err != nil {
		return nil, err
	}
	d = &Driver{cfg: cfg, epoll: -1, slowNext: clock.Never, news: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("xdp: interface %s: %w", at.name, err), d.release())
			d = nil
		}
	}()
	if err := d.size(cfg.MTU, at, cfg.Addr.Addr()); err != nil {
		return d, err
	}
	beside := udp.Config{Addr: cfg.Addr, MTU: d.mtu, OneSocket: true, NoOffload: cfg.NoOffload, Log: cfg.Log}
	if d.slow, err = udp.Listen(beside); err != nil {
		return d, err
	}
	d.addr = d.slow.Addr()
	if d.addr.Addr().IsLinkLocalUnicast() {
		d.zone = d.addr.Addr().Zone()
	}
	if d.routes, err = newRoutes(at.index, at.hw, at.vlan, d.addr); err != nil {
		return d, err
	}
	if err := d.openQueues(cfg, at); err != nil {
		return d, err
	}
	if err := d.attach(cfg.Generic, at); err != nil {
		return d, err
	}
	d.shape()
	return d, d.watch()
}

// find returns the interface of an address.
func find(ip netip.Addr) (at place, err error) {
	ip = ip.Unmap()
	if ip.IsUnspecified() {
		all, err := addresses(ip)
		if err != nil {
			return at, err
		}
		return at, notOne(ip, all)
	}
	if !ip.IsValid() || ip.IsLoopback() {
		return at, fmt.Errorf("%w: the address is %v; expected one of a network interface", ErrUnavailable, ip)
	}
	all, err := whole(netlink.LinkList)
	if err != nil {
		return at, fmt.Errorf("xdp: list the interfaces: %w", err)
	}
	for _, l := range all {
		addrs, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_ALL) })
		if err != nil {
			return at, fmt.Errorf("xdp: addresses of %s: %w", l.Attrs().Name, err)
		}
		a := l.Attrs()
		if !slices.ContainsFunc(addrs,
			func(b netlink.Addr) bool { return b.IP.Equal(net.IP(ip.WithZone("").AsSlice())) }) ||
			ip.Zone() != "" && ip.Zone() != a.Name && ip.Zone() != strconv.Itoa(a.Index) {
			continue
		}
		at = place{name: a.Name, index: a.Index, lower: a.Index, mtu: a.MTU, rxQueue: max(a.NumRxQueues, 1)}
		if len(a.HardwareAddr) != len(at.hw) {
			return at, fmt.Errorf("%w: interface %s has no Ethernet address", ErrUnavailable, a.Name)
		}
		copy(at.hw[:], a.HardwareAddr)
		if v, ok := l.(*netlink.Vlan); ok {
			err = at.tagged(v)
		}
		return at, err
	}
	return at, fmt.Errorf("%w: %w %v", ErrUnavailable, errNoInterface, ip)
}

// listTries is the number of times that a list is requested if it changes meanwhile.
const listTries = 100

// whole returns a complete list from the kernel. On a host of containers, interfaces come and
// go, even between two parts of the list. Then whole asks again.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	for range listTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// tagged finds the interface below a VLAN. It fails if that interface is in another network
// namespace, where its number has another meaning.
func (at *place) tagged(v *netlink.Vlan) error {
	if v.NetNsID >= 0 {
		return fmt.Errorf("%w: the interface below %s is in another network namespace", ErrUnavailable, v.Name)
	}
	lower, err := netlink.LinkByIndex(v.ParentIndex)
	if err != nil {
		return fmt.Errorf("xdp: interface below %s: %w", v.Name, err)
	}
	at.lower, at.vlan, at.rxQueue = v.ParentIndex, uint16(v.VlanId), max(lower.Attrs().NumRxQueues, 1)
	return nil
}

// size sets the largest frame: the minimum of what the interface carries and what fits into a
// chunk.
func (d *Driver) size(asked int, at place, ip netip.Addr) error {
	headers := ipv4Len + udpLen
	if !ip.Unmap().Is4() {
		headers = ipv6Len + udpLen
	}
	d.mtu = min(at.mtu-headers, chunkBytes-chunkSpare-ethernetLen-vlanLen-headers)
	if asked == 0 {
		asked = d.mtu
	}
	if asked < limits.LeastFrame || asked > d.mtu {
		return fmt.Errorf(
			"MTU of %d bytes: not in %d…%d (the interface carries %d, and a frame has to fit into a chunk of %d)",
			asked, limits.LeastFrame, d.mtu, at.mtu, chunkBytes)
	}
	d.mtu = asked
	return nil
}

// openQueues makes a socket for each queue of the interface. An interface may use fewer queues
// than it has.
func (d *Driver) openQueues(cfg Config, at place) error {
	want := cfg.Queues
	if want == 0 {
		want = min(at.rxQueue, limits.XDPQueues)
	}
	for n := range want {
		q, err := openQueue(at.lower, n, cfg.Copy || cfg.Generic)
		if err != nil && n > 0 && cfg.Queues == 0 && errors.Is(err, unix.EINVAL) {
			break
		}
		if err != nil {
			return unavailable(err)
		}
		d.queues = append(d.queues, q)
	}
	d.why = d.explain(cfg, at)
	return nil
}

// explain returns a text about how the driver is attached, and why not in a better way.
func (d *Driver) explain(cfg Config, at place) string {
	mode, how := "native", "zero-copy"
	if why := d.queues[0].copying; why != nil && cfg.Generic {
		mode, how = "generic", "copying"
	} else if why != nil {
		how = fmt.Sprintf("copying (zero-copy: %v)", why)
	}
	size := fmt.Sprintf("frames of %d bytes: %s carries %d", d.mtu, at.name, at.mtu)
	if carried := at.mtu - chunkBytes + chunkSpare + ethernetLen + vlanLen; carried > 0 {
		size += fmt.Sprintf(", and the memory of a frame holds %d less", carried)
	}
	queues := "1 queue"
	if n := len(d.queues); n != 1 {
		queues = fmt.Sprintf("%d queues", n)
	}
	return fmt.Sprintf("AF_XDP on %s: %s, %s, %s; %s; beside it UDP: %s",
		at.name, mode, how, queues, size, d.slow.ExplainSocket())
}

// release frees all parts of a driver that exist.
func (d *Driver) release() (err error) {
	if d.epoll >= 0 {
		err = unix.Close(d.epoll)
		d.epoll = -1
	}
	err = errors.Join(err, free(append(d.queues, d.dead...), &d.steer))
	if d.routes != nil {
		d.routes.close()
	}
	if d.slow != nil {
		err = errors.Join(err, d.slow.Close())
	}
	d.queues, d.dead, d.steer = nil, nil, steering{}
	return err
}
