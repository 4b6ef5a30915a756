package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// routes holds the headers of the paths to peers, from the kernel's tables. A query of the
// kernel is a system call that is answered at once.
type routes struct {
	handle  *netlink.Handle
	news    *nl.NetlinkSocket
	newsFd  int
	ifindex int // of addresses and neighbours: the VLAN's, if there is one
	source  mac // of ifindex, since the last news
	vlan    uint16
	from    netip.AddrPort
	known   map[link.Addr]*route
	unread  [8192]byte // buffer of look, which discards the news
}

// route is the path to one peer.
type route struct {
	header
	direct bool       // the header is valid; else frames use the ordinary socket
	check  bool       // the kernel's tables have changed since
	askAt  clock.Time // time before which the kernel is not asked
}

// askEvery is the pause before the kernel is asked again about an unknown neighbour or a changed
// table. The kernel needs a round trip to find an address; meanwhile its frames use the ordinary
// socket.
const askEvery = 5 * time.Millisecond

func newRoutes(ifindex int, source mac, vlan uint16, from netip.AddrPort) (r *routes, err error) {
	r = &routes{ifindex: ifindex, source: source, vlan: vlan, from: from, known: make(map[link.Addr]*route), newsFd: -1}
	// A socket belongs to the network namespace in which it is made, so the sockets are made
	// now.
	if r.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("xdp: netlink: %w", err)
	}
	r.news, err = nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_NEIGH, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		r.close()
		return nil, fmt.Errorf("xdp: news of neighbours and routes: %w", err)
	}
	r.newsFd = r.news.GetFd()
	if err := unix.SetNonblock(r.newsFd, true); err != nil {
		r.close()
		return nil, fmt.Errorf("xdp: news of neighbours and routes: %w", err)
	}
	return r, nil
}

// find returns the path to an address.
func (r *routes) find(now clock.Time, to link.Addr) *route {
	w := r.known[to]
	if w == nil {
		if len(r.known) >= 2*limits.Peers { // those still in use are looked up again
			clear(r.known)
		}
		w = &route{check: true}
		r.known[to] = w
	}
	if (w.check || !w.direct) && now >= w.askAt && r.ifindex > 0 {
		w.check, w.askAt = false, now.Add(askEvery)
		next, ok := r.neighbour(to.Addr())
		if w.direct = ok; ok {
			w.header = makeHeader(&path{from: r.from, to: to, source: r.source, next: next, vlan: r.vlan})
		}
	}
	return w
}

// neighbour asks the kernel for the link address of the first hop to ip. ok is false if the path
// does not use our interface, or the address is unknown.
func (r *routes) neighbour(ip netip.Addr) (next mac, ok bool) {
	ip = ip.Unmap()
	to := net.IP(ip.WithZone("").AsSlice())
	if !ip.IsLinkLocalUnicast() {
		ways, err := r.handle.RouteGetWithOptions(to,
			&netlink.RouteGetOptions{SrcAddr: r.from.Addr().Unmap().AsSlice()})
		if err != nil || len(ways) == 0 || ways[0].LinkIndex != r.ifindex {
			return next, false
		}
		if ways[0].Gw != nil {
			to = ways[0].Gw
		}
	}
	family := netlink.FAMILY_V4
	if to.To4() == nil {
		family = netlink.FAMILY_V6
	}
	all, err := r.handle.NeighList(r.ifindex, family)
	if err != nil {
		return next, false
	}
	const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY |
		netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP
	for i := range all {
		if n := &all[i]; n.IP.Equal(to) && n.State&usable != 0 && len(n.HardwareAddr) == len(next) {
			copy(next[:], n.HardwareAddr)
			return next, true
		}
	}
	return next, false
}

// look reads the news, and reports whether there was any. It does not parse the news: they are
// rare, and the tables must be queried anyway.
func (r *routes) look() (news bool) {
	for changed := false; ; changed = true {
		// Recvfrom would allocate an address each time, even if nothing has arrived.
		n, err := unix.Read(r.newsFd, r.unread[:])
		if err == unix.EINTR {
			continue
		}
		if err == unix.ENOBUFS { // some news was lost, which also counts as news
			changed = true
		} else if err != nil || n == 0 {
			if changed {
				r.changed()
			}
			return changed
		}
	}
}

func (r *routes) changed() {
	if r.ifindex < 0 {
		return
	}
	if l, err := r.handle.LinkByIndex(r.ifindex); err == nil && len(l.Attrs().HardwareAddr) == len(r.source) {
		copy(r.source[:], l.Attrs().HardwareAddr)
	}
	for _, w := range r.known {
		w.check = true
	}
}

// exists reports whether the interface exists.
func (r *routes) exists() bool {
	_, err := r.handle.LinkByIndex(r.ifindex)
	var none netlink.LinkNotFoundError
	return !errors.As(err, &none)
}

// forget drops all routes and sets another interface. If ifindex is -1, there is none, and all
// frames use the ordinary socket.
func (r *routes) forget(ifindex int, source mac, vlan uint16) {
	r.ifindex, r.source, r.vlan = ifindex, source, vlan
	clear(r.known)
}

func (r *routes) close() {
	if r.news != nil {
		r.news.Close()
		r.news = nil
	}
	if r.handle != nil {
		r.handle.Close()
		r.handle = nil
	}
	r.newsFd = -1
}
