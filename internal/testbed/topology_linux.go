package testbed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Addresses are made from a host's index, so that a log line shows its host. Host 0 has
//
//	10.87.0.1/16    fd87:5745:4654::1/64    02:57:45:46:00:01

const (
	bits4 = 16
	bits6 = 64

	// firstIndex is the interface index of the first link that addCable makes. It is far from the
	// indexes that the kernel gives out. If a link and its peer have the same index, the kernel
	// takes the link for one without a peer, and then takes up to a second to notice that the
	// other end is up.
	firstIndex = 1000

	// patience is how long a link or an address may take to come up. It takes milliseconds, but
	// seconds while XDP programs come and go elsewhere: each holds the lock of all links until an
	// RCU grace period has passed, and workers of the kernel are passed over.
	patience = time.Minute
)

func addr4(i int) netip.Addr {
	n := i + 1
	return netip.AddrFrom4([4]byte{10, 87, byte(n >> 8), byte(n)})
}

func addr6(i int) netip.Addr {
	n := i + 1
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x87, 2: 0x57, 3: 0x45, 4: 0x46, 5: 0x54,
		14: byte(n >> 8), 15: byte(n)})
}

func mac(i int) net.HardwareAddr {
	n := i + 1
	return net.HardwareAddr{0x02, 0x57, 0x45, 0x46, byte(n >> 8), byte(n)}
}

// buildCable joins host 0 and host 1. It makes the links in their final namespaces, so they are
// never seen elsewhere.
func (t *Testbed) buildCable() error {
	nl, err := t.hosts[0].ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	return t.addCable(nl, Interface, mac(0), t.hosts[1])
}

// addCable makes a veth pair: one end in the namespace of nl, the other in the host to.
func (t *Testbed) addCable(nl *netlink.Handle, name string, hw net.HardwareAddr, to *Host) error {
	veth := netlink.NewVeth(netlink.NewLinkAttrs())
	veth.Name, veth.MTU, veth.HardwareAddr, veth.Index = name, t.config.mtu(), hw, firstIndex+to.index
	veth.PeerName, veth.PeerMTU, veth.PeerHardwareAddr = Interface, uint32(t.config.mtu()), mac(to.index)
	veth.NumTxQueues, veth.NumRxQueues = t.config.queues(), t.config.queues()
	veth.PeerNumTxQueues, veth.PeerNumRxQueues = uint32(t.config.queues()), uint32(t.config.queues())
	veth.PeerNamespace = netlink.NsFd(to.ns.fd)
	if err := nl.LinkAdd(veth); err != nil {
		return explain("making a veth pair", err)
	}
	return nil
}

// buildSwitch makes the namespace of the switch and gives each host a cable to it.
func (t *Testbed) buildSwitch() (err error) {
	if t.bridge, err = newNamespace(); err != nil {
		return err
	}
	nl, err := t.bridge.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	join, err := t.buildBridge(nl)
	if err != nil {
		return err
	}
	for _, h := range t.hosts {
		if err := t.addPort(nl, h, join); err != nil {
			return err
		}
	}
	if t.shaped != nil {
		t.shaped.start()
	}
	return nil
}

// buildBridge makes the bridge, or a carrier instead, and returns the function that joins a port
// to it.
func (t *Testbed) buildBridge(nl *netlink.Handle) (join func(netlink.Link) error, err error) {
	if t.config.shaped() {
		if t.shaped, err = newCarrier(&t.config); err != nil {
			return nil, err
		}
		return func(port netlink.Link) error {
			return t.bridge.do(func() error { return t.shaped.addPort(port.Attrs().Name, port.Attrs().Index) })
		}, nil
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = bridgeName, t.config.mtu()
	snooping := false // no host joins groups here, so multicast goes to all
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := nl.LinkAdd(bridge); err != nil {
		return nil, explain("making a bridge", err)
	}
	if err := nl.LinkSetUp(bridge); err != nil {
		return nil, explain("starting the bridge", err)
	}
	return joinBridge(nl, bridge), nil
}

// bridgeName is the name of the bridge in its namespace.
const bridgeName = "switch0"

// joinBridge returns the function that joins a port to a bridge.
func joinBridge(nl *netlink.Handle, bridge netlink.Link) func(netlink.Link) error {
	return func(port netlink.Link) error {
		if err := nl.LinkSetMaster(port, bridge); err != nil {
			return explain("joining "+port.Attrs().Name+" to the bridge", err)
		}
		return nil
	}
}

// addPort gives one host its cable to the switch, with a loss program if there is to be loss.
func (t *Testbed) addPort(nl *netlink.Handle, h *Host, join func(netlink.Link) error) error {
	h.bridge = t.bridge
	name := portName(h.index)
	if err := t.addCable(nl, name, nil, h); err != nil {
		return err
	}
	port, err := nl.LinkByName(name)
	if err != nil {
		return explain("finding "+name, err)
	}
	if t.config.cuts() {
		err := t.bridge.do(func() (err error) {
			h.loss, err = attachLoss(port.Attrs().Index)
			return err
		})
		if err != nil {
			return err
		}
	}
	if rate := t.config.rate(h.index); rate > 0 {
		if err := pace(nl, port, rate, t.config.mtu()+headerBytes, switchQueueFrames); err != nil {
			return err
		}
	}
	if err := join(port); err != nil {
		return err
	}
	if err := nl.LinkSetUp(port); err != nil {
		return explain("starting "+name, err)
	}
	return nil
}

func portName(i int) string { return fmt.Sprintf("port%d", i) }

// awaitLinks returns when every link carries frames and every address is in use. When the other
// end of a link comes up, a kernel worker starts the link some time later. Until then the link
// loses frames.
func (t *Testbed) awaitLinks() error {
	if t.bridge != nil {
		ports := make([]string, len(t.hosts))
		for i := range ports {
			ports[i] = portName(i)
		}
		if err := t.bridge.awaitLinks(ports...); err != nil {
			return err
		}
	}
	for _, h := range t.hosts {
		if err := h.ns.awaitLinks(Interface); err != nil {
			return err
		}
		if err := h.awaitAddr6(); err != nil {
			return err
		}
	}
	return nil
}

// awaitAddr6 returns when the host uses its IPv6 address. A kernel worker does that too, with or
// without duplicate address detection.
func (h *Host) awaitAddr6() error {
	if !h.addr6.IsValid() {
		return nil
	}
	nl, err := h.ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		routes, err := nl.RouteGet(h.addr6.AsSlice())
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("testbed: host %d has not taken up %v after %v (routes %v, error %v)", h.index,
				h.addr6, patience, routes, err)
		}
	}
}

func (ns *namespace) awaitLinks(names ...string) error {
	nl, err := ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	deadline := time.Now().Add(patience)
	for _, name := range names {
		for ; ; time.Sleep(time.Millisecond) {
			l, err := nl.LinkByName(name)
			if err != nil {
				return explain("looking at "+name, err)
			}
			if l.Attrs().OperState == netlink.OperUp {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("testbed: %s is %v after %v", name, l.Attrs().OperState, patience)
			}
		}
	}
	return nil
}

// configure brings the host's links up and gives it its addresses and its neighbours.
func (h *Host) configure(hosts int) error {
	nl, err := h.ns.netlink()
	if err != nil {
		return err
	}
	defer nl.Close()
	eth, err := nl.LinkByName(Interface)
	if err != nil {
		return explain("finding a host's link", err)
	}
	lo, err := nl.LinkByName("lo")
	if err != nil {
		return explain("finding a host's loopback", err)
	}
	for _, l := range []netlink.Link{lo, eth} {
		if err := nl.LinkSetUp(l); err != nil {
			return explain("starting a host's link", err)
		}
	}
	if err := nl.AddrAdd(eth, address(addr4(h.index), bits4)); err != nil {
		return explain("giving a host its IPv4 address", err)
	}
	switch err := nl.AddrAdd(eth, address(addr6(h.index), bits6)); {
	case err == nil:
		h.addr6 = addr6(h.index)
	case !noIPv6(err):
		return explain("giving a host its IPv6 address", err)
	}
	return h.meet(nl, eth.Attrs().Index, hosts)
}

// meet enters all other hosts into the neighbour tables.
func (h *Host) meet(nl *netlink.Handle, link, hosts int) error {
	for i := range hosts {
		if i == h.index {
			continue
		}
		addrs := []netip.Addr{addr4(i)}
		if h.addr6.IsValid() {
			addrs = append(addrs, addr6(i))
		}
		for _, a := range addrs {
			n := &netlink.Neigh{LinkIndex: link, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac(i)}
			if err := nl.NeighSet(n); err != nil {
				return explain("telling a host its neighbours", err)
			}
		}
	}
	return nil
}

// address returns an address that is used at once, without asking whether another host has it.
func address(a netip.Addr, bits int) *netlink.Addr {
	return &netlink.Addr{
		IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())},
		Flags: unix.IFA_F_NODAD,
	}
}

// noIPv6 reports whether adding an IPv6 address failed because the kernel has no IPv6, or has it
// disabled permanently.
func noIPv6(err error) bool {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return true
	}
	_, e := os.Stat("/proc/sys/net/ipv6")
	return e != nil || errors.Is(err, unix.EACCES)
}

// netlink opens a route socket in the namespace. The socket stays there, whichever thread uses
// it.
func (ns *namespace) netlink() (nl *netlink.Handle, err error) {
	err = ns.do(func() error {
		// These apply to links that are made later.
		sysctl("ipv6/conf/default/disable_ipv6", "0")
		sysctl("ipv6/conf/default/accept_dad", "0")
		sysctl("ipv6/conf/default/router_solicitations", "0")
		if nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return explain("opening a netlink socket", err)
		}
		return nil
	})
	return nl, err
}
