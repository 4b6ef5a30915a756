package daemon

import (
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// expel closes the connection of a process; its goroutine does the rest. Which process it was, and why, stays known for a while.
func (d *Daemon) expel(s *session, why error) {
	d.log.Warn("process thrown out", "process", s.name, "slot", s.slot, "pid", s.pid, "uid", s.uid, "why", why)
	d.mu.Lock()
	d.remember(ctl.Thrown{Name: s.name.String(), Slot: s.slot, Generation: s.gen, PID: s.pid, UID: s.uid, Why: why.Error(), Last: time.Now().UnixNano(), Times: 1})
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

// remember enters a process that was thrown out, the latest last. One program that comes back again and again has one entry, so that
// it cannot make others be forgotten. With the lock held.
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

// thrownOut lists them.
func (d *Daemon) thrownOut() []ctl.Thrown {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]ctl.Thrown(nil), d.thrown...)
}
