package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/secret"
)

// A turn of a busy NIC takes leastTurn to leastTurn + turnSpread. An idle NIC notices a frame or a
// kick within noticeTime.
const (
	leastTurn  = 300 * time.Nanosecond
	turnSpread = 1500 * time.Nanosecond
	noticeTime = 2 * time.Microsecond
)

// Before a turn, a NIC that listens to a process ends listening with probability 1/parksEarly.
const parksEarly = 64

// After a productive turn, the NIC gets no turn before its own deadline with probability 1/leaves,
// as if a polling caller had its result and left.
const leaves = 8

// node is one host: a port of the network and, while it runs, a NIC.
type node struct {
	f     *Fabric
	index int
	id    uint64
	port  *port

	engine  *nic.Engine // nil while the NIC is stopped
	life    uint64      // incarnation of the present or latest engine
	pollAt  clock.Time  // time of its next turn; Never: none until an event
	turn    uint64      // counts turns: an event for an earlier one is stale
	rng     *rand.Rand  // draws parksEarly and leaves
	stalled clock.Time  // no turn before

	lingers  *lingerer // the coroutine that holds the engine while it waits for a frame; nil: none
	unpolled int       // frames taken since a poll was due

	procs []*Process // registered or being registered, in order
	asks  []*ask     // of the driver to the present NIC, in order
	wait  []*Process // start with the NIC

	site *deploy.Site // of programs
}

func newNode(f *Fabric, index int) *node {
	id := uint64(NICID(index))
	if ids := f.cfg.hooks.IDs; index < len(ids) {
		id = ids[index]
	}
	n := &node{f: f, index: index, id: id, port: f.net.ports[index], pollAt: clock.Never}
	n.rng = stream(f.cfg.Seed, 2<<32+uint64(index))
	n.site = n.newSite()
	return n
}

// position returns the NIC's place on the torus, or the zero Position without a torus.
func (n *node) position() nic.Position {
	w := n.f.cfg.TorusWidth
	if w == 0 {
		return nic.Position{}
	}
	h := (n.f.cfg.NICs + w - 1) / w
	return nic.Position{X: uint16(n.index % w), Y: uint16(n.index / w), Width: uint16(w), Height: uint16(h)}
}

// start plugs in a new NIC, which begins the node's next life.
func (n *node) start() error {
	h := &n.f.cfg.hooks
	n.life++
	if h.NewIDs {
		n.id += 1 << 32
	}
	cfg := nic.Config{
		ID: n.id, Incarnation: n.life, Secrets: secret.Seeded(n.f.seeds.Uint64()),
		Link: n.port, ReceiveCapacity: n.port.capacity(),
		UnreachableAfter: n.f.cfg.UnreachableAfter, Static: !h.Hearsay, Belief: nic.Belief{HearsayFromPeers: h.Hearsay},
		StagingBytes: h.StagingBytes, InitialCreditBytes: h.CreditBytes, Requests: h.Requests,
		IdlePolls: h.IdlePolls, RelaySaves: h.RelaySaves, MaxProcesses: h.MaxProcesses,
		Faults: h.Faults, Defect: h.Defect, Position: n.position(),
	}
	if err := n.seal(&cfg); err != nil {
		return err
	}
	e, err := nic.New(cfg)
	if err != nil {
		return err
	}
	n.engine = e
	for _, peer := range n.f.nodes {
		if peer != n && (h.Peers == nil || h.Peers(n.index, peer.index)) {
			id := peer.id
			if h.NewIDs {
				id = 0
			}
			if err := e.AddNode(id, peer.port.addr); err != nil {
				return fmt.Errorf("NIC %d: %w", n.index, err)
			}
		}
	}
	n.port.plug(n.arrived)
	n.soon(noticeTime)
	return nil
}

// vanish removes the NIC as a crash does, without a word to its processes and peers.
func (n *node) vanish() {
	n.disturb()
	n.engine, n.asks = nil, nil
	n.port.unplug()
	n.pollAt = clock.Never
	n.turn++
}

// soon schedules a turn of the NIC at a drawn time within limit, unless an earlier one is due.
func (n *node) soon(limit time.Duration) { n.schedule(n.f.s.now.Add(n.f.s.jitter(limit))) }

func (n *node) schedule(at clock.Time) {
	at = max(at, n.stalled, n.f.s.now)
	if n.engine == nil || at >= n.pollAt {
		return
	}
	n.pollAt = at
	n.turn++
	n.f.s.push(at, n, n.turn)
}

// happen runs the NIC's turn, and the later turns that come before any other event.
func (n *node) happen(turn uint64) {
	s := n.f.s
	for turn == n.turn && n.engine != nil {
		n.pollAt = clock.Never
		if n.stalled > s.now {
			n.schedule(n.stalled)
			return
		}
		n.disturb()
		next := n.poll()
		if turn != n.turn || !s.passTo(next) {
			n.schedule(next)
			return
		}
	}
}

// poll gives the NIC one turn and returns when it wants the next.
func (n *node) poll() clock.Time {
	s := n.f.s
	if n.rng.IntN(parksEarly) == 0 { // as if another thread needed the CPU
		n.engine.EndListening()
	}
	work, next := n.engine.Poll(s.now)
	s.note(uint64(n.index)<<56 ^ uint64(s.now)<<8 ^ uint64(work))
	n.letDetachedGo()
	n.answered()
	if check := n.f.cfg.hooks.Check; check != nil {
		if err := check(n.engine); err != nil {
			n.f.fail(fmt.Errorf("NIC %d: %w", n.index, err))
		}
	}
	if next <= s.now || n.engine.Listening() || work > 0 && n.rng.IntN(leaves) > 0 {
		next = s.now.Add(leastTurn + s.jitter(turnSpread))
	}
	return min(next, n.port.drained())
}

// letDetachedGo asks the driver to delete the processes that the NIC has expelled.
func (n *node) letDetachedGo() {
	for _, d := range n.engine.TakeDetached() {
		for _, p := range n.procs {
			if p.slot == d.Slot && p.gen == d.Generation {
				n.f.counts.Detached++
				p.detached = true
				p.wakeAll()
				p.askToLeave()
			}
		}
	}
}
