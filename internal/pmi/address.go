package pmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// hostVariable is the name by which mpiexec.hydra knows the host of a rank.
const hostVariable = "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"

// HostAddress returns an address of this host that other hosts can reach. It prefers the address
// of the launcher's name for this host, then that of the host's own name. Else it is the first
// global address of an interface that is up.
func HostAddress(ctx context.Context) (netip.Addr, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of this host: %w", err)
	}
	var here []netip.Addr // reachable from elsewhere, IPv4 first
	for _, v4 := range []bool{true, false} {
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap().IsGlobalUnicast() && ip.Unmap().Is4() == v4 {
					here = append(here, ip.Unmap())
				}
			}
		}
	}
	name, _ := os.Hostname() // an empty name is skipped
	for _, name := range []string{os.Getenv(hostVariable), name} {
		if name == "" {
			continue
		}
		// A name that no server knows is no error.
		found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		for _, ip := range found {
			for _, h := range here {
				if ip.Unmap() == h {
					return h, nil
				}
			}
		}
	}
	if len(here) == 0 {
		return netip.Addr{}, errors.New("this host has no address that other hosts can reach")
	}
	return here[0], nil
}
