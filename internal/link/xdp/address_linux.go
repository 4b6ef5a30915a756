package xdp

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Address is an address of this host, and the name of its interface.
type Address struct {
	Addr      netip.Addr
	Interface string
}

func (a Address) String() string { return fmt.Sprintf("%v (%s)", a.Addr, a.Interface) }

// Sole returns the address that an unspecified one stands for, if this host has exactly one.
// Loopback and link-local addresses do not count. The error wraps ErrUnavailable and lists the
// addresses.
func Sole(every netip.Addr) (Address, error) {
	all, err := addresses(every)
	if err != nil {
		return Address{}, err
	}
	if len(all) != 1 {
		return Address{}, notOne(every, all)
	}
	return all[0], nil
}

// notOne returns the error for an unspecified address.
func notOne(every netip.Addr, all []Address) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: the address is %v; expected one of a network interface, and none is up that has one",
			ErrUnavailable, every)
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.String()
	}
	return fmt.Errorf("%w: the address is %v, which is every one; expected that of a network interface: %s",
		ErrUnavailable, every, strings.Join(names, ", "))
}

// addresses lists the addresses that an unspecified one stands for: all IPv4 addresses for
// 0.0.0.0, all addresses for ::.
func addresses(every netip.Addr) (all []Address, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("xdp: list the interfaces: %w", err)
	}
	for _, in := range interfaces {
		if in.Flags&net.FlagUp == 0 || in.Flags&net.FlagLoopback != 0 {
			continue
		}
		own, err := in.Addrs()
		if err != nil {
			return nil, fmt.Errorf("xdp: addresses of %s: %w", in.Name, err)
		}
		for _, a := range own {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			ip, ok := netip.AddrFromSlice(n.IP)
			ip = ip.Unmap()
			if ok && ip.IsGlobalUnicast() && (every.Is6() || ip.Is4()) {
				all = append(all, Address{ip, in.Name})
			}
		}
	}
	return all, nil
}
