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

// A turn of a busy NIC takes between leastTurn and leastTurn + turnSpread; an idle one notices a frame or a kick within
// noticeTime.
const (
	leastTurn  = 300 * time.Nanosecond
	turnSpread = 1500 * time.Nanosecond
	noticeTime = 2 * time.Microsecond
)

// parksEarly is one in how many turns of a NIC that listens to a process it would park if it could.
const parksEarly = 64

// leaves is one in how many turns that have done something is followed by none before the NIC asks for one, as those of a caller that has
// what it waited for.
const leaves = 8

// node is one host: a port of the network, and the NIC that is plugged in there in its present life.
type node struct {
	f     *Fabric
	index int
	id    uint64
	port  *port

	engine  *nic.Engine // nil while the NIC is stopped
	life    uint64      // incarnation of the present or latest engine
	pollAt  clock.Time  // when its next turn is; Never: when something comes
	turn    uint64      // counts turns: an event for an earlier one is stale
	rng     *rand.Rand  // of parksEarly
	stalled clock.Time  // no turn before

	lingers  *lingerer // has the engine while it waits for a frame; nil if none does
	unpolled int       // frames that were taken though a poll was due

	procs []*Process // registered here, or about to be, in order
	asks  []*ask     // of the driver, in order; those of an earlier life are forgotten
	wait  []*Process // start when the NIC does

	site *deploy.Site // of programs
}

func newNode(f *Fabric, index int) *node {
	id := uint64(NICID(index))
	if ids := f.cfg.hooks.IDs; index < len(ids) {
		id = ids[index]
	}
	n := &node{f: f, index: index, id: id, port: f.net.ports[index], pollAt: clock.Never, rng: stream(f.cfg.Seed, 2<<32+uint64(index))}
	n.site = n.newSite()
	return n
}

// position is the NIC's on the torus, if there is one.
func (n *node) position() nic.Position {
	w := n.f.cfg.TorusWidth
	if w == 0 {
		return nic.Position{}
	}
	h := (n.f.cfg.NICs + w - 1) / w
	return nic.Position{X: uint16(n.index % w), Y: uint16(n.index / w), Width: uint16(w), Height: uint16(h)}
}

// start plugs in a NIC in its next life.
func (n *node) start() error {
	h := &n.f.cfg.hooks
	n.life++
	cfg := nic.Config{
		ID: n.id, Incarnation: n.life, Secrets: secret.Seeded(n.f.seeds.Uint64()), Link: n.port, ReceiveCapacity: n.port.capacity(),
		UnreachableAfter: n.f.cfg.UnreachableAfter, Static: !h.Hearsay, Belief: nic.Belief{HearsayFromPeers: h.Hearsay},
		StagingBytes: h.StagingBytes, InitialCreditBytes: h.CreditBytes, Requests: h.Requests, IdlePolls: h.IdlePolls, RelaySaves: h.RelaySaves, MaxProcesses: h.MaxProcesses,
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
			if err := e.AddNode(peer.id, peer.port.addr); err != nil {
				return fmt.Errorf("NIC %d: %w", n.index, err)
			}
		}
	}
	n.port.plug(n.arrived)
	n.soon(noticeTime)
	return nil
}

// vanish takes the NIC away as a crash does: neither its processes nor its peers are told.
func (n *node) vanish() {
	n.disturb()
	n.engine, n.asks = nil, nil
	n.port.unplug()
	n.pollAt = clock.Never
	n.turn++
}

// soon gives the NIC a turn within a drawn part of limit, if none is due before.
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

// happen is the NIC's turn, and those that follow before anything else happens.
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
	if n.rng.IntN(parksEarly) == 0 { // as beside a thread that computes
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

// letDetachedGo has the driver delete the processes that the NIC will not serve any more.
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
