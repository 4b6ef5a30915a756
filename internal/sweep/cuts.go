package sweep

import (
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/sim"
)

// A cut ends a session in the middle of a stream. A process sends many short messages to one
// other process, on a link that loses some. Then its NIC vanishes or is cut off. So messages that
// have arrived wait for a message that never will.

// drawCuts makes every second lossy fabric that is not spared cut some streams.
func (p *plan) drawCuts(rng *rand.Rand) {
	if p.faults.Loss == 0 || len(p.acts) == 0 || rng.IntN(2) > 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		a := act{kind: actCut, after: rng.IntN(p.messages),
			lasting: p.unreachableAfter + time.Duration(rng.Int64N(int64(2*p.unreachableAfter)))}
		if a.stops = rng.IntN(2) > 0; a.stops {
			a.lasting = pick(rng, 0, a.lasting/100, a.lasting)
		}
		p.acts = append(p.acts, a)
	}
}

// cut makes a process of a host begin a stream, and soon cuts the host off.
func (w *world) cut(host int, a act) {
	from, to := w.streamer(host), pick(w.rng, w.names...)
	if from == nil || w.homes[to] == host {
		w.actEnded()
		return
	}
	w.log("%s begins a stream to %s", from.name, to)
	w.totals.Faults.Cuts++
	from.senders++
	w.sending++
	from.proc.Start("stream", func(p *sim.Process) error { return from.verdict(from.stream(p.Rand(), to)) })
	w.f.After(time.Duration(w.rng.Int64N(int64(4*w.plan.link.Latency+2*time.Millisecond))), func() {
		if a.stops {
			w.stopNIC(host, a.lasting)
		} else {
			w.part([]int{host}, a.lasting)
		}
	})
}

// streamer returns a life at a host that its NIC serves, or nil if there is none.
func (w *world) streamer(host int) *life {
	for _, name := range w.names {
		if lf := w.lives[name]; lf.host == host && !lf.ended && lf.half != nil {
			return lf
		}
	}
	return nil
}

// mostStreamed limits a stream. Usually a cut ends it before.
const mostStreamed = 150

// stream sends short messages to one process, as fast as it can.
func (lf *life) stream(rng *rand.Rand, to string) error {
	w := lf.w
	var flight []sending
	var err error
	for n := 0; n < mostStreamed && w.phase == load && !lf.ended && err == nil; n++ {
		size := idBytes + rng.IntN(200)
		if rng.IntN(6) == 0 { // in pieces, some of which may be lost
			size = 2000 + rng.IntN(4000)
		}
		var s sending
		s, err = lf.startTo(rng, w.l.prepare(lf, to, rng.Uint64N(tagClasses), size, rng.IntN(8) == 0))
		if err == nil && s.op != nil {
			flight = append(flight, s)
		}
		for i := 0; i < len(flight) && err == nil; i++ {
			// So the process soon knows which messages have left.
			if s := flight[i]; s.op.over() || len(flight) > 2 {
				flight = append(flight[:i], flight[i+1:]...)
				err = lf.finish(rng, s)
				i--
			}
		}
		if rng.IntN(4) == 0 {
			lf.pause(rng, 20*time.Microsecond)
		}
	}
	for ; len(flight) > 0 && err == nil; flight = flight[1:] {
		err = lf.finish(rng, flight[0])
	}
	if !lf.ended { // otherwise the world has already subtracted it
		lf.senders--
		w.sending--
	}
	return err
}

// over reports whether an operation has ended.
func (o *op) over() bool {
	if o.Op == nil {
		return true
	}
	done, _, _ := o.Test()
	return done
}
