package rel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// shown holds what a table of peers shows of an endpoint.
type shown struct {
	stats            PeerStats
	nic, incarnation uint64
	addr             netip.AddrPort
	up, sealed       bool
	heard            clock.Time
	rtt, least       time.Duration
	window, inFlight int
	frame, whole     int
	path             PathState
}

func showing(e *Endpoint) (s shown) {
	s.stats, s.nic, s.incarnation, s.addr, s.up, s.sealed = *e.Stats(), e.NIC(), e.Incarnation(), e.Addr(), e.Up(), e.Sealed()
	s.heard, s.rtt, s.least, s.path = e.Heard(), e.RTT(), e.LeastRTT(), e.PathState()
	s.window, s.inFlight = e.Window()
	s.frame, s.whole, _ = e.FrameLengths()
	return s
}

// watchChanges fails the test if, after a poll, an endpoint of n shows something new and
// NextChanged does not return it. It returns the number of endpoints that NextChanged returned.
func (n *node) watchChanges() (returned *int) {
	last := map[*Endpoint]shown{}
	returned = new(int)
	n.polled = func() {
		for e := n.m.NextChanged(); e != nil; e = n.m.NextChanged() {
			last[e] = showing(e)
			*returned++
		}
		for _, e := range n.m.Endpoints() {
			if got := showing(e); got != last[e] {
				n.w.t.Fatalf("NIC %d at %d: NextChanged did not return NIC %d, which was\n%+v\nand is\n%+v", n.cfg.NIC, n.w.now, e.NIC(), last[e], got)
			}
		}
	}
	return returned
}

func TestEveryPeerThatShowsSomethingNewHasChanged(t *testing.T) {
	rough := weather{delay: 50 * time.Microsecond, loss: 0.05, dup: 0.05, reorder: 0.2, jitter: time.Millisecond, corrupt: 0.02}
	for _, c := range []struct {
		name    string
		weather weather
		change  func(i int) func(*Config)
	}{
		{"plain", rough, func(int) func(*Config) { return nil }},
		{"sealed", rough, func(i int) func(*Config) { return sealAs(i, fast) }},
		{"narrow", rough, func(int) func(*Config) { return func(c *Config) { c.Narrow, c.MTU = true, 8972 } }},
		{"reliable", weather{}, func(int) func(*Config) {
			return func(c *Config) { c.Reliable, c.Tagged = true, false }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, c.weather)
			a, b := w.add(1, c.change(1)), w.add(2, c.change(2))
			for _, n := range []*node{a, b} {
				n.watchChanges()
			}
			tr := newTraffic(a, b, 200, []int{100_000})
			b.open(a)
			tr.pump()
			w.runUntil(time.Minute, "all messages", tr.finished)
			if c.name == "narrow" {
				w.narrow(1000)
				tr.another(50_000, time.Minute, "messages over a path that became narrow")
				w.filter = nil
			}
			tr.e.Watch(+1)
			a.wake()
			w.run(2 * limits.PathRaise)
			b.restart()
			b.open(a).Connect(w.now)
			b.wake()
			w.runUntil(time.Minute, "the second session", func() bool { return tr.e.Up() && tr.e.Stats().Sessions == 2 })
			w.run(time.Second)
			b.dead = true // the peer falls silent
			w.runUntil(time.Minute, "the end of the session", func() bool { return !tr.e.Up() })
			if _, err := a.m.Open(2, address(9)); err != nil { // and is sought elsewhere
				t.Fatal(err)
			}
			a.wake()
			w.run(time.Second)
		})
	}
}

// An idle peer costs nothing, however many there are.
func TestAPeerWithoutEventsHasNotChanged(t *testing.T) {
	w, a, toB, _ := joinedTwice(t)
	returned := a.watchChanges()
	a.wake()
	w.run(time.Second)
	if *returned != 2 {
		t.Fatalf("NextChanged returned %d endpoints; want 2", *returned)
	}
	a.frag(toB, wire.Command, "a message")
	w.run(10 * time.Millisecond)
	if b := toB.Stats(); *returned < 3 || *returned > 2+int(b.Out.Frames+b.In.Frames) || b.Sends != 1 {
		t.Errorf("after a message to one of two peers, NextChanged returned %d endpoints", *returned-2)
	}
	before := *returned
	w.run(time.Minute)
	if *returned != before {
		t.Errorf("NextChanged returned %d idle endpoints", *returned-before)
	}
}

func TestEndpointsAreReturnedInTheOrderOfTheirChanges(t *testing.T) {
	w := newWorld(t, 1, weather{})
	m := w.add(1, nil).m
	var all []*Endpoint
	for i := range 6 {
		e, err := m.Open(uint64(10+i), address(10+i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	next := func(want ...int) {
		t.Helper()
		for _, i := range want {
			if e := m.NextChanged(); e != all[i] {
				t.Fatalf("NextChanged returned %v; want NIC %d", e, all[i].NIC())
			}
		}
	}
	next(0, 1)
	all[0].MarkChanged()
	all[3].MarkChanged()    // it is on the list
	m.Forget(w.now, all[2]) // the first
	m.Forget(w.now, all[4]) // one in the middle
	m.Forget(w.now, all[0]) // the last
	all[4].MarkChanged()    // it is forgotten
	all[1].MarkChanged()
	next(3, 5, 1)
	if m.AnyChanged() || m.NextChanged() != nil {
		t.Error("an endpoint is left")
	}
	m.Forget(w.now, all[5])
	all[3].MarkChanged()
	if !m.AnyChanged() {
		t.Error("no endpoint has changed")
	}
	next(3)
}

// A flood of strangers leaves nothing on the list, also if nobody takes from it.
func TestAStrangerHasNotChanged(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a := w.add(1, nil)
	for i := range 5 {
		a.m.Receive(w.now, address(20+i), helloFrame(uint64(20+i), 1, 1, nil))
	}
	w.run(limits.UnreachableAfter)
	if got := fmt.Sprint(a.m.NextChanged()); len(a.m.strangers) == 0 && a.m.Stats().HelloReceives == 0 || got != "<nil>" {
		t.Errorf("NextChanged returned %s, with %d strangers", got, len(a.m.strangers))
	}
}
