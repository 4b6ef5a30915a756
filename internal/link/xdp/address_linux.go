package xdp

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Address is an address of this host, and the interface that has it.
type Address struct {
	Addr      netip.Addr
	Interface string
}

func (a Address) String() string { return fmt.Sprintf("%v (%s)", a.Addr, a.Interface) }

// Sole is the address that stands for an unspecified one where there is no choice: this host has no other, loopback's left
// out, and those that are good on one cable only. Its error wraps ErrUnavailable and names the choice.
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

// notOne refuses an unspecified address.
func notOne(every netip.Addr, all []Address) error {
	if len(all) == 0 {
		return fmt.Errorf("%w: the address is %v; expected one of a network interface, and none is up that has one", ErrUnavailable, every)
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.String()
	}
	return fmt.Errorf("%w: the address is %v, which is every one; expected that of a network interface: %s", ErrUnavailable, every, strings.Join(names, ", "))
}

// addresses lists the addresses that an unspecified one stands for: 0.0.0.0 for those of IPv4, :: for all.
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
