package nic

import "fmt"

// Leaks names everything that an engine still holds although no process of its has an operation under way and every
// message has been received: tables, memory, permission and credit must be back where they started. The simulator asks
// after every run.
func (e *Engine) Leaks() []string {
	var l []string
	leak := func(ok bool, format string, args ...any) {
		if !ok {
			l = append(l, fmt.Sprintf("NIC %d: ", e.cfg.ID)+fmt.Sprintf(format, args...))
		}
	}
	kept := 0
	for _, p := range e.procs {
		if p == nil {
			continue
		}
		leak(p.sched.n == 0, "%v: %d sends scheduled", p, p.sched.n)
		for i := range p.sends {
			leak(p.sends[i].state == sendIdle, "%v: send context %d in state %d", p, i, p.sends[i].state)
			leak(p.recvs[i].state == recvIdle, "%v: receive context %d in state %d", p, i, p.recvs[i].state)
		}
		kept += p.stray.n
		for _, src := range sorted(p.sources) {
			leak(src.early.n == 0, "%v: %d envelopes of slot %d of NIC %d parked, the first %d, expected %d",
				p, src.early.n, src.key.slot, src.nic, early(src), src.expected)
		}
		out := 0
		for _, c := range p.credits {
			out += int(c.out)
			leak(p.stray.n > 0 || c.out == c.handed-c.spent, "%v: credit of NIC %d: %d of quota, but %d unspent", p, c.pr.nic, c.out, c.handed-c.spent)
		}
		leak(out == p.credited, "%v: credits of %d bytes, counted as %d", p, out, p.credited)
		leak(p.stray.n > 0 || p.staged == 0, "%v: %d bytes staged, but no message waits", p, p.staged)
		leak(p.staged+p.credited <= e.cfg.StagingBytes, "%v: %d bytes of staging and %d of credit in a quota of %d", p, p.staged, p.credited, e.cfg.StagingBytes)
	}
	for _, pr := range e.nodes.list {
		leak(pr.out.n == 0 && pr.in.n == 0 && pr.gets.n == 0 && pr.serving.n == 0, "peer %d: fragments out %d, in %d, gets %d, serving %d",
			pr.nic, pr.out.n, pr.in.n, pr.gets.n, pr.serving.n)
		leak(pr.blocked.n == 0, "peer %d: %d sends blocked", pr.nic, pr.blocked.n)
		requests, waiting := 0, 0
		for _, r := range pr.remotes {
			requests += r.requests
			waiting += r.waiting.n
		}
		leak(requests == 0 && waiting == 0, "peer %d: %d requests open, %d sends waiting for credit", pr.nic, requests, waiting)
	}
	leak(e.waiting.n == 0, "%d sends wait for names", e.waiting.n)
	leak(e.inbounds.inUse == kept, "%d inbounds in use, %d messages waiting", e.inbounds.inUse, kept)
	leak(kept > 0 || e.staging.inUse == 0, "%d bytes of staging in use", e.staging.inUse)
	leak(e.serves.inUse == 0, "%d GETs being answered", e.serves.inUse)
	leak(e.grants.outstanding == 0 && e.grants.waiting.n == 0, "permissions for %d bytes outstanding, %d waiting", e.grants.outstanding, e.grants.waiting.n)
	return l
}

func early(src *source) uint32 {
	if inb := src.early.front(); inb != nil {
		return inb.env.Number
	}
	return 0
}
