package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// lookUpFor bounds the lookup of a host name.
const lookUpFor = 5 * time.Second

// Resolve returns the first address of ResolveAll.
func Resolve(s string, port uint16) (netip.AddrPort, error) {
	all, err := ResolveAll(s, port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return all[0], nil
}

// ResolveAll resolves the address of a node: an IP or a host name, and a port. If the port is
// missing, ResolveAll uses the given port. It looks a host name up once, within 5 seconds. It
// returns at most limits.NodeAddresses addresses, in the order in which they should be tried: an
// IPv4 address first, then the families alternate. A fabric binds the ids of NICs to their
// addresses, so a name that moves later changes nothing.
func ResolveAll(s string, port uint16) ([]netip.AddrPort, error) {
	return resolve(s, port, net.DefaultResolver.LookupNetIP)
}

// lookUp finds the addresses of a host, as net.Resolver does.
type lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)

func resolve(s string, port uint16, find lookUp) ([]netip.AddrPort, error) {
	if a, err := netip.ParseAddr(unbracketed(s)); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), port)}, nil
	}
	if at, err := ParseAddr(s); err == nil {
		return []netip.AddrPort{at}, nil
	}
	wrong := fmt.Errorf("address %.80q: expected HOST or HOST:PORT, "+
		"such as 10.0.0.2, host-2:%d or [fe80::2]:%d, and a PORT up to 65535", s, port, port)
	host := s
	if h, p, splits := strings.Cut(s, ":"); splits {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return nil, wrong
		}
		host, port = h, uint16(n)
	}
	if !isHostName(host) {
		return nil, wrong
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpFor)
	defer cancel()
	all, err := find(ctx, "ip", host)
	if err == nil && len(all) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, fmt.Errorf("address %.80q: the lookup of its host name failed: %w", s, err)
	}
	return byTurns(all, port), nil
}

// byTurns returns the addresses of a host in the order in which they should be tried. Each family
// keeps the resolver's order, and the families alternate. So an unreachable family delays the
// other by only one address.
func byTurns(all []netip.Addr, port uint16) (order []netip.AddrPort) {
	var families [2][]netip.AddrPort
	for _, a := range all {
		at, family := netip.AddrPortFrom(a.Unmap(), port), 1
		if at.Addr().Is4() {
			family = 0
		}
		if !slices.Contains(families[family], at) {
			families[family] = append(families[family], at)
		}
	}
	for i := range all {
		for _, f := range families {
			if i < len(f) && len(order) < limits.NodeAddresses {
				order = append(order, f[i])
			}
		}
	}
	return order
}

// unbracketed returns an IPv6 address without its brackets. Any other text is unchanged.
func unbracketed(s string) string {
	if in, ok := strings.CutPrefix(s, "["); ok && strings.Contains(in, ":") {
		if in, ok = strings.CutSuffix(in, "]"); ok {
			return in
		}
	}
	return s
}

// mostHostName is the longest host name of DNS, in bytes.
const mostHostName = 253

// isHostName reports whether s can be a host name. A malformed IP cannot.
func isHostName(s string) bool {
	letters := false
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			letters = true
		case r >= '0' && r <= '9', r == '-', r == '.', r == '_':
		default:
			return false
		}
	}
	return letters && len(s) <= mostHostName && s[0] != '-' && s[0] != '.'
}
