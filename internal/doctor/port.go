package doctor

import (
	"errors"
	"fmt"
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
	owners, err := p.owners(at.Port())
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
	default:
		f.Mend = "sudo weft doctor"
		f.Note = "its process belongs to another user: root sees it and the command that ends it; " + f.Note
	}
	return []Finding{f}, nil
}

// owners returns the processes that have a UDP socket with a local port. It misses processes that
// this user may not see.
func (p *Patient) owners(port uint16) (pids []string, err error) {
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
			_, local, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(local, 16, 16); err == nil && uint16(n) == port {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	all, err := p.Host.List("/proc")
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		if _, err := strconv.Atoi(pid); err == nil && p.hasAny(pid, sockets) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
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
