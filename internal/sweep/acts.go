package sweep

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// act carries out the acts that are due after the messages sent so far.
func (w *world) act() {
	sent := w.plan.messages - w.toSend
	w.acts = slices.DeleteFunc(w.acts, func(a act) bool {
		if a.after > sent {
			return false
		}
		w.pendingActs++
		w.f.After(time.Duration(w.rng.Int64N(int64(time.Millisecond))), func() { w.do(a) })
		return true
	})
}

// actsAtOnce narrows the paths that are narrow before the first session opens.
func (w *world) actsAtOnce() {
	w.acts = slices.DeleteFunc(w.acts, func(a act) bool {
		if a.kind != actNarrow || a.after > 0 {
			return false
		}
		w.pendingActs++
		w.do(a)
		return true
	})
}

func (w *world) do(a act) {
	host := w.rng.IntN(w.plan.nics)
	switch a.kind {
	case actPartition:
		w.partition(a.lasting)
	case actClog:
		other := w.rng.IntN(w.plan.nics)
		w.touch(host, other)
		w.log("clog from %d to %d for %v", host, other, a.lasting)
		w.f.Clog(host, other, a.lasting)
		w.f.After(a.lasting, w.actEnded)
	case actStall:
		w.touch(host)
		w.log("stall of host %d for %v", host, a.lasting)
		w.f.Stall(host, a.lasting)
		w.f.After(a.lasting, w.actEnded)
	case actStopNIC:
		w.stopNIC(host, a.lasting)
	case actCut:
		w.cut(host, a)
	case actKill:
		w.kill(a.lasting)
	case actHostile:
		w.unleash(host)
		w.actEnded()
	case actNarrow:
		w.narrow(host, a)
	}
}

func (w *world) actEnded() { w.pendingActs-- }

func (w *world) touch(hosts ...int) {
	for _, h := range hosts {
		w.touched[h] = true
	}
}

func (w *world) partition(lasting time.Duration) {
	w.part(w.rng.Perm(w.plan.nics)[:1+w.rng.IntN(w.plan.nics-1)], lasting)
}

// part cuts some hosts off from the others.
func (w *world) part(hosts []int, lasting time.Duration) {
	if lasting > w.plan.unreachableAfter {
		w.totals.Faults.LongPartitions++
	}
	for h := range w.plan.nics {
		w.touch(h)
	}
	w.log("partition of %v for %v", hosts, lasting)
	heal := w.f.Partition(hosts...)
	w.f.After(lasting, func() {
		heal()
		w.actEnded()
	})
}

// narrow makes some paths from a host carry shorter frames. This excuses no failure: every
// message must still arrive.
func (w *world) narrow(host int, a act) {
	others := w.rng.Perm(w.plan.nics)[:1+w.rng.IntN(3)]
	w.log("frames of more than %d bytes from %d to %v vanish for %v", a.longest, host, others, a.lasting)
	for _, o := range others {
		w.f.Narrow(host, o, a.longest)
	}
	w.f.After(a.lasting, func() {
		if a.lasting > 0 {
			for _, o := range others {
				w.f.Narrow(host, o, 0)
			}
		}
		w.actEnded()
	})
}

// stopNIC stops a NIC, so that its processes lose their attachments. Later it starts the NIC
// again, with new processes of the same names.
func (w *world) stopNIC(host int, lasting time.Duration) {
	if simulated.Engine(w.f, host) == nil {
		w.actEnded()
		return
	}
	w.touch(host)
	w.countNIC(host)
	var names []string
	// Processes that wait for their names. They would otherwise wait for the next NIC.
	var early []*sim.Process
	for _, name := range w.names {
		if lf := w.lives[name]; lf.host == host {
			w.end(lf)
			names = append(names, name)
			if simulated.Half(lf.proc) == nil {
				early = append(early, lf.proc)
			}
		}
	}
	w.log("NIC %d vanishes for %v", host, lasting)
	w.f.StopNIC(host)
	for _, p := range early {
		w.f.Kill(p)
	}
	w.f.After(lasting, func() {
		w.f.StartNIC(host)
		for _, name := range names {
			w.begin(name)
		}
		w.actEnded()
	})
}

// kill ends a process without warning. After a while, another process takes its name.
func (w *world) kill(lasting time.Duration) {
	name := w.victim()
	lf := w.lives[name]
	if lf.ended {
		w.actEnded()
		return
	}
	w.touch(lf.host)
	w.end(lf)
	w.log("%s on host %d is killed for %v", name, lf.host, lasting)
	w.f.Kill(lf.proc)
	w.f.After(lasting, func() {
		if simulated.Engine(w.f, lf.host) != nil && w.lives[name] == lf {
			w.begin(name)
		}
		w.actEnded()
	})
}

// victim draws the process to kill: if possible, one that is the receiver of a message in flight.
func (w *world) victim() string {
	o := w.l.order
	for range 10 {
		if m := o[len(o)-1-w.rng.IntN(min(len(o), 20))]; m.outcome == pending {
			return m.to
		}
	}
	return pick(w.rng, w.names...)
}

// unleash starts a hostile process at a NIC.
func (w *world) unleash(host int) {
	room := w.plan.hooks.MaxProcesses - w.guests[host]
	for _, home := range w.homes {
		if home == host {
			room--
		}
	}
	if simulated.Engine(w.f, host) == nil || room <= 0 {
		return
	}
	w.guests[host]++
	w.totals.Faults.Hostile++
	w.log("a hostile process on host %d", host)
	h := &hostile{w: w}
	w.f.Serve(host, fmt.Sprintf("evil/%d", w.totals.Faults.Hostile), h.main)
}
