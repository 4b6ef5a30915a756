package registry

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// lookUpFor bounds the lookup of a host name.
const lookUpFor = 5 * time.Second

// Resolve reads the address of a node: an IP or a host name, and a port. If the port is missing,
// Resolve takes the one given. It looks a host name up once, within 5 seconds, and prefers an IPv4
// address: a fabric binds the ids of NICs to their addresses, so a name that moves later changes
// nothing.
func Resolve(s string, port uint16) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(unbracketed(s)); err == nil {
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	if at, err := ParseAddr(s); err == nil {
		return at, nil
	}
	wrong := fmt.Errorf("address %.80q: expected HOST or HOST:PORT, "+
		"such as 10.0.0.2, host-2:%d or [fe80::2]:%d, and a PORT up to 65535", s, port, port)
	host := s
	if h, p, splits := strings.Cut(s, ":"); splits {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return netip.AddrPort{}, wrong
		}
		host, port = h, uint16(n)
	}
	if !isHostName(host) {
		return netip.AddrPort{}, wrong
	}
	a, err := lookUp(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %.80q: the lookup of its host name failed: %w", s, err)
	}
	return netip.AddrPortFrom(a, port), nil
}

// lookUp returns an address of a host: the first IPv4 address, as package net chooses, or else the
// first address.
func lookUp(host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookUpFor)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range all {
		if a.Unmap().Is4() {
			return a.Unmap(), nil
		}
	}
	return all[0], nil
}

// unbracketed returns an IPv6 address without its brackets. Any other text stays as it is.
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

// isHostName reports whether s can be a host name. A malformed IP is none.
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
