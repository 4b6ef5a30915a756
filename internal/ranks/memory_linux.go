package ranks

import "github.com/weftnet/weft/internal/cgroup"

// memory tells the kernel's kills for lack of memory from other kills, by the count of the cgroup.
// The kernel does not say which process it killed. So the first process that died by SIGKILL after
// the count rose is taken for it.
type memory struct {
	read func() (cgroup.OOM, error)
	seen uint64 // kills that are attributed, or older than the job
}

// watchMemory begins to watch the ranks' cgroup, or the one in which the keeper is.
func watchMemory(g *cgroup.Group) *memory {
	m := &memory{read: cgroup.Enclosing}
	if g != nil {
		m.read = g.OOM
	}
	if o, err := m.read(); err == nil {
		m.seen = o.Kills
	} else {
		m.read = nil // this host does not count
	}
	return m
}

// killed returns which memory ran out for a process that SIGKILL has just ended, or an empty
// string. The caller sets foreign unless the keeper itself has sent the signal.
func (m *memory) killed(foreign bool) string {
	if !foreign || m.read == nil {
		return ""
	}
	o, err := m.read()
	if err != nil || o.Kills <= m.seen {
		return ""
	}
	m.seen++
	return o.String()
}
