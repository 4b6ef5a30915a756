package doctor

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// lookPort finds a program that has the UDP port of the NIC, if no daemon runs.
func lookPort(p *Patient) ([]Finding, error) {
	if p.NIC != nil {
		return nil, nil
	}
	at := p.Setup.Listen
	if at.Port() == 0 {
		return nil, nil
	}
	err := p.Host.Bind(at)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, err
	}
	f := Finding{
		What: fmt.Sprintf("another program has the UDP port %d of this host", at.Port()),
		Cost: fmt.Sprintf("weft nic cannot start at %v", at),
		Note: "or give the NIC another port by listen, and the same port in the nodes of its peers",
	}
	owners, byInit, err := p.owners(at)
	switch {
	case err != nil:
		return nil, err
	case len(owners) > 0:
		names := make([]string, len(owners))
		for i, pid := range owners {
			names[i] = fmt.Sprintf("process %s (%q)", pid, p.commandOf(pid))
		}
		f.What += ": " + strings.Join(names, ", ")
		f.Mend = p.asRoot("kill " + strings.Join(owners, " "))
	case byInit:
		f.What += ": process 1"
		f.Note = "the init process holds it for a socket unit, which `systemctl list-sockets` names: stop that unit; " +
			f.Note
	default:
		f.Mend = "sudo weft doctor"
		f.Note = "its process belongs to another user: root sees it and the command that ends it; " + f.Note
	}
	return []Finding{f}, nil
}

// owners returns the processes that have a UDP socket which keeps a NIC from at, as far as this
// user may see them. byInit is true if process 1 has one, which is not among them.
func (p *Patient) owners(at netip.AddrPort) (pids []string, byInit bool, err error) {
	sockets := make(map[string]bool) // socket:[INODE]
	for _, file := range []string{"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"} {
		text, err := p.Host.Read(file)
		if err != nil {
			continue // a host without one of the families
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 {
				continue
			}
			if local, ok := kernelAddr(f[1]); ok && collide(local, at) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	all, err := p.Host.List("/proc")
	if err != nil {
		return nil, false, err
	}
	for _, pid := range all {
		if _, err := strconv.Atoi(pid); err != nil || !p.hasAny(pid, sockets) {
			continue
		}
		if pid == "1" {
			byInit = true
		} else {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, byInit, nil
}

// collide reports whether a UDP socket keeps another one from an address: they have the same port,
// and the same address or one that includes the other.
func collide(has, wants netip.AddrPort) bool {
	a, b := has.Addr(), wants.Addr().Unmap().WithZone("")
	switch {
	case has.Port() != wants.Port():
		return false
	case a == netip.IPv6Unspecified(), b == netip.IPv6Unspecified(): // both families
		return true
	case a.Is4() != b.Is4():
		return false
	}
	return a == b || a.IsUnspecified() || b.IsUnspecified()
}

// kernelAddr reads an address as the kernel writes it in /proc/net: each word of 32 bits is a
// hexadecimal number in the byte order of the machine.
func kernelAddr(text string) (at netip.AddrPort, ok bool) {
	digits, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, rawErr := hex.DecodeString(digits)
	if err != nil || rawErr != nil || len(raw)%4 != 0 {
		return at, false
	}
	for w := raw; len(w) > 0; w = w[4:] {
		binary.NativeEndian.PutUint32(w, binary.BigEndian.Uint32(w))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// hasAny reports whether a process has one of some sockets.
func (p *Patient) hasAny(pid string, sockets map[string]bool) bool {
	dir := filepath.Join("/proc", pid, "fd")
	fds, err := p.Host.List(dir)
	if err != nil {
		return false // it has ended, or is another user's
	}
	for _, fd := range fds {
		if to, err := p.Host.Target(filepath.Join(dir, fd)); err == nil && sockets[to] {
			return true
		}
	}
	return false
}

// commandOf returns the name of a process.
func (p *Patient) commandOf(pid string) string {
	name, err := p.Host.Read("/proc/" + pid + "/comm")
	if err != nil {
		return "ended"
	}
	return strings.TrimSpace(string(name))
}
