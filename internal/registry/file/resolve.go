package file

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft/internal/registry"
)

// lookUpFor is how long the look-up of a host's name may take.
const lookUpFor = 5 * time.Second

// Resolve reads an address: an IP or the name of a host, and a port, which may be left out. A name is looked up here and now, and the address
// stays what it was then: a fabric binds the ids of NICs to their addresses.
func Resolve(s string, port uint16) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(unbracketed(s)); err == nil {
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	at, err := registry.ParseAddr(s)
	if err == nil {
		return at, nil
	}
	err = fmt.Errorf("address %q: expected HOST or HOST:PORT, such as 10.0.0.2, host-2:%d or [fe80::2]:%d, and a PORT up to 65535", s, port, port)
	host := s
	if h, p, splits := strings.Cut(s, ":"); splits {
		n, bad := strconv.ParseUint(p, 10, 16)
		if bad != nil {
			return at, err
		}
		host, port = h, uint16(n)
	}
	if !isHostName(host) {
		return at, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpFor)
	defer cancel()
	all, missing := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if missing != nil {
		return at, fmt.Errorf("address %q: the name of its host cannot be looked up: %w", s, missing)
	}
	best := all[0]
	for _, a := range all {
		if a.Unmap().Is4() { // as package net chooses
			best = a
			break
		}
	}
	return netip.AddrPortFrom(best.Unmap(), port), nil
}

// unbracketed is an IP of version 6 without the brackets in which a port makes it stand.
func unbracketed(s string) string {
	if in, ok := strings.CutPrefix(s, "["); ok && strings.Contains(in, ":") {
		if in, ok = strings.CutSuffix(in, "]"); ok {
			return in
		}
	}
	return s
}

// isHostName reports whether s can be the name of a host: an IP that is not well written is none.
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
	return letters && s[0] != '-' && s[0] != '.'
}
