package names

import (
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// A claim to a name that another process has is often a claim of the same program: it was killed
// with its NIC, and was restarted. The NICs that heard nothing else of the killed NIC still
// believe that it lives. So a NIC refuses a claim only if the NIC of the holder proves that it
// lives:
//
//	claim ─ the holder's NIC is probed ─┬─ it answers ───────────────► refused
//	                                    ├─ given up, or displaced ───► names lead nowhere: granted
//	                                    └─ neither within doubtTime ─► refused
//
// This gives a claimant no way to steal a name: the holder's NIC keeps its names as long as it
// answers.

// doubtTime returns how long a claim waits at most for the proof that the holder's NIC lives. It
// is longer than it takes to give up a dead NIC, and shorter than the patience of the claimant.
func (t *Table) doubtTime() time.Duration {
	return min(t.cfg.UnreachableAfter+t.cfg.ProbeEvery, limits.ConfirmWithin-3*limits.ProbeEvery)
}

// vouched reports whether the claim o, which has the name, stands against the claim n: the NIC of
// o has answered since n met o here, or its time is over. Until then vouched probes that NIC, and
// decide checks again.
func (t *Table) vouched(n, o *Entry) bool {
	p, now := t.nic.Peer(o.NIC), t.nic.Now()
	if o.NIC == t.cfg.NIC || o.NIC == n.NIC || p == nil || !p.Up() {
		return true
	}
	if n.doubtTill == 0 {
		n.doubtTill = now.Add(t.doubtTime())
	}
	if n.doubts != o.Address {
		n.doubts, n.doubtFrom = o.Address, now
		t.doubt(p)
		p.Probe(now)
	}
	if p.Heard() > n.doubtFrom || n.doubtTill <= now {
		return true
	}
	t.nic.CheckAt(now.Add(max(t.cfg.ProbeEvery/16, time.Microsecond)))
	return false
}
