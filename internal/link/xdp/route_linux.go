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

// routes knows the headers of the ways to others, from the kernel's tables. Asking the kernel is a system call that is answered
// at once.
type routes struct {
	handle  *netlink.Handle
	news    *nl.NetlinkSocket
	newsFd  int
	ifindex int // where addresses and neighbours are: the VLAN's, if there is one
	source  mac // of ifindex, as of the last news
	vlan    uint16
	from    netip.AddrPort
	known   map[link.Addr]*route
	unread  [8192]byte // memory of look: what the news says is of no interest
}

// route is the way to one other.
type route struct {
	header
	direct bool       // the header is good; else frames go by the ordinary socket
	check  bool       // the kernel's tables have changed since
	askAt  clock.Time // not before
}

// askEvery is how long a neighbour that is not known, or a table that has changed, is not asked for again: an address
// takes the kernel a round trip to find, and its frames go by the ordinary socket meanwhile.
const askEvery = 5 * time.Millisecond

func newRoutes(ifindex int, source mac, vlan uint16, from netip.AddrPort) (r *routes, err error) {
	r = &routes{ifindex: ifindex, source: source, vlan: vlan, from: from, known: make(map[link.Addr]*route), newsFd: -1}
	// Sockets are of the network namespace in which they are made. So they are made now.
	if r.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("xdp: netlink: %w", err)
	}
	r.news, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_NEIGH, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
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

// find returns the way to an address.
func (r *routes) find(now clock.Time, to link.Addr) *route {
	w := r.known[to]
	if w == nil {
		if len(r.known) >= 2*limits.Peers { // those that are still wanted are asked for again
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

// neighbour asks the kernel for the link address that frames to ip go to first. It is not ok if they do not go by our interface, or
// the address is not known.
func (r *routes) neighbour(ip netip.Addr) (next mac, ok bool) {
	ip = ip.Unmap()
	to := net.IP(ip.WithZone("").AsSlice())
	if !ip.IsLinkLocalUnicast() {
		ways, err := r.handle.RouteGetWithOptions(to, &netlink.RouteGetOptions{SrcAddr: r.from.Addr().Unmap().AsSlice()})
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
	const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP
	for i := range all {
		if n := &all[i]; n.IP.Equal(to) && n.State&usable != 0 && len(n.HardwareAddr) == len(next) {
			copy(next[:], n.HardwareAddr)
			return next, true
		}
	}
	return next, false
}

// look reads the news, and reports whether there was any. What changed is not read out of it: it is rare, and the tables are asked anyway.
func (r *routes) look() (news bool) {
	for changed := false; ; changed = true {
		n, err := unix.Read(r.newsFd, r.unread[:]) // Recvfrom allocates an address each time, also where nothing has come
		if err == unix.EINTR {
			continue
		}
		if err == unix.ENOBUFS { // some news was lost, which is news
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

// exists reports whether the interface is there.
func (r *routes) exists() bool {
	_, err := r.handle.LinkByIndex(r.ifindex)
	var none netlink.LinkNotFoundError
	return !errors.As(err, &none)
}

// forget begins anew on another interface. Without one, which is -1, all frames go by the ordinary socket.
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
