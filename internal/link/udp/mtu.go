package udp

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/weftnet/weft/internal/limits"
)

// The length of the IP and UDP headers before a frame, in bytes.
const (
	headers4 = 20 + 8
	headers6 = 40 + 8
)

// interfaceMTU returns the largest frame that may leave by the interface of a local address, and
// why. The path beyond may carry less, which rel finds out by probes (internal/rel/pathmtu.go).
//
//	a loopback address           limits.LoopbackFrame
//	an address of an interface   the interface's MTU less headers (1472 for IPv4 on Ethernet),
//	                             at most LoopbackFrame
//	the unspecified address      the least of all interfaces that are up, without loopback if
//	                             there are others
//
// Loopback could carry 64 KiB. A frame that large is charged whole to the receive buffer, and
// the buffer of an unprivileged process holds three: too few to keep a sender busy. The same
// bound serves other links of huge MTU.
func interfaceMTU(ip netip.Addr) (mtu int, why string, err error) {
	headers := headers4
	if ip.Is6() {
		headers = headers6
	}
	if ip.IsLoopback() {
		return limits.LoopbackFrame, "loopback", nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0, "", fmt.Errorf("list the interfaces: %w", err)
	}
	least := -1
	for i, in := range interfaces {
		if !suits(&in, ip) || ip.IsUnspecified() && in.MTU-headers < limits.LeastFrame {
			continue
		}
		if least < 0 || in.MTU < interfaces[least].MTU {
			least = i
		}
	}
	if least < 0 {
		if ip.IsUnspecified() {
			return limits.LoopbackFrame, "no interface but loopback is up", nil
		}
		// It seems not to be an address of this host. The bind will show that, or it may be
		// bound all the same.
		return 1500 - headers, fmt.Sprintf("Ethernet's, because no interface has %v", ip), nil
	}
	in := &interfaces[least]
	return min(in.MTU-headers, limits.LoopbackFrame), fmt.Sprintf("%s carries %d", in.Name, in.MTU), nil
}

// suits reports whether frames from ip may leave by in.
func suits(in *net.Interface, ip netip.Addr) bool {
	if ip.IsUnspecified() {
		return in.Flags&net.FlagUp != 0 && in.Flags&net.FlagLoopback == 0
	}
	addrs, err := in.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if p, ok := a.(*net.IPNet); ok && p.IP.Equal(ip.WithZone("").AsSlice()) {
			return ip.Zone() == "" || ip.Zone() == in.Name || ip.Zone() == fmt.Sprint(in.Index)
		}
	}
	return false
}
