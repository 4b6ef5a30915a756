package daemon

import (
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// expel closes the connection of a process; the connection's goroutine does the rest. The daemon
// remembers the process and the reason for a while.
func (d *Daemon) expel(s *session, why error) {
	d.log.Warn("process thrown out", "process", s.name, "slot", s.slot, "pid", s.pid, "uid", s.uid, "why", why)
	d.mu.Lock()
	d.remember(ctl.Thrown{Name: s.name.String(), Slot: s.slot, Generation: s.gen, PID: s.pid, UID: s.uid,
		Why: why.Error(), Last: time.Now().UnixNano(), Times: 1})
	var conn *client
	for c := range d.clients {
		if c.session == s {
			conn = c
		}
	}
	d.mu.Unlock()
	if conn != nil {
		d.spend(conn, limits.ThrownOutCost)
		_ = conn.conn.Close()
	}
}

// remember enters a process that was thrown out, the latest last. A program that returns again
// and again has one entry, so that it cannot displace others. The caller holds the lock.
func (d *Daemon) remember(t ctl.Thrown) {
	for i, old := range d.thrown {
		if old.PID == t.PID && old.UID == t.UID {
			t.Times += old.Times
			d.thrown = append(d.thrown[:i], d.thrown[i+1:]...)
			break
		}
	}
	if len(d.thrown) == limits.ThrownOut {
		d.thrown = d.thrown[1:]
	}
	d.thrown = append(d.thrown, t)
}

// thrownOut lists the processes that were thrown out.
func (d *Daemon) thrownOut() []ctl.Thrown {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]ctl.Thrown(nil), d.thrown...)
}
