package sweep

import (
	"fmt"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/wire"
)

// intruderWatch checks the promises of an attacked fabric:
//
//	no key seals two frames with one packet counter; no counter of a session or of Hellos falls
//	an address that has proved nothing gets at most as many bytes as it sent; a stranger gets none
//	no session of two honest NICs ends, except once for a NIC that restarts
//	each honest NIC stays at its address, and each name stays with its owner
//	honest operations succeed; the delivered data is the sent data, and does not change
//	a member without good credentials has no session, and one that loses them loses its sessions
//	each kind of attack is refused and counted
type intruderWatch struct {
	x        *intruder
	names    map[*seal.Key][wire.TagLen]byte // a tag that only this key makes
	used     map[[wire.TagLen]byte]uint64    // the last counter of each key, by such a tag
	counters map[sentOn]uint64               // the last counter of each session, and of Hellos

	// Bytes from and to attackers, by honest NIC and attacker's host.
	received, sent [intruderHonest][intruderHosts]int
	sessions       [intruderHonest][intruderHonest]uint32
	ended          [intruderHonest][intruderHonest]int
	may            [intruderHonest][intruderHonest]int // number of ends that are permitted
	polls          int
}

// sentOn is one direction of a session, or the Hellos of a NIC to another.
type sentOn struct {
	from, to int
	index    uint32
}

func newIntruderWatch(x *intruder) *intruderWatch {
	return &intruderWatch{x: x, names: map[*seal.Key][wire.TagLen]byte{}, used: map[[wire.TagLen]byte]uint64{},
		counters: map[sentOn]uint64{}}
}

// witness is called for each sealed frame. It compares keys by the tags that they make, because
// two NICs, or two lives of one NIC, might have the same key.
func (w *intruderWatch) witness(key any, counter uint64) {
	k := key.(*seal.Key)
	name, known := w.names[k]
	if !known {
		k.Seal(name[:], 0, 0, nil, 1<<64-1)
		w.names[k] = name
	}
	if last := w.used[name]; counter <= last {
		w.x.violate("a key has sealed a frame with counter %d after one with %d", counter, last)
	}
	w.used[name] = counter
}

// leaves notes a frame that an honest NIC sends.
func (w *intruderWatch) leaves(from, to int, frame []byte) {
	if to >= hostThief {
		if w.sent[from][to] += len(frame); w.sent[from][to] > w.received[from][to] {
			w.x.violate("NIC %d has sent %d bytes to host %d, from which %d came", from, w.sent[from][to], to,
				w.received[from][to])
		}
		return
	}
	o, _, err := wire.ParseOuter(frame)
	if err != nil {
		w.x.violate("NIC %d sends host %d a frame without a header: %v", from, to, err)
		return
	}
	on := sentOn{from, to, o.Index}
	if o.Kind == wire.KindCookie || o.Kind == wire.KindHelloAck {
		// A Cookie has a counter of Hellos. Several answers to one Hello belong to different
		// sessions.
		return
	}
	if last := w.counters[on]; o.Counter <= last {
		w.x.violate("NIC %d sends host %d counter %d after %d, to session %x", from, to, o.Counter, last, o.Index)
	}
	w.counters[on] = o.Counter
}

// inject sends an attacker's frame from its own address, or from that of an honest NIC.
func (x *intruder) inject(from, to int, frame []byte) {
	if to < intruderHonest && from != hostStranger { // a stranger gets nothing
		x.watch.received[to][from] += len(frame)
	}
	simulated.Inject(x.f, from, to, frame)
}

// check judges a NIC after each of its polls.
func (w *intruderWatch) check(e *nic.Engine) error {
	host := w.host(e)
	if host >= intruderHonest {
		return nil
	}
	for peer := range intruderHonest {
		if peer == host {
			continue
		}
		now := e.Session(w.x.ids[peer])
		if was := w.sessions[host][peer]; was != 0 && was != now {
			w.ended[host][peer]++
			if w.ended[host][peer] > w.may[host][peer] {
				w.x.violate("session %x of NIC %d with NIC %d has ended; now it is %x", was, host, peer, now)
			}
		}
		w.sessions[host][peer] = now
	}
	w.x.members.check(host, e)
	w.x.grams.polled(e, w.x.honest.working())
	if w.polls++; w.polls%checkEvery != 0 {
		return nil
	}
	return e.Limits()
}

func (w *intruderWatch) host(e *nic.Engine) int {
	for host, id := range w.x.ids {
		if e.ID() == id {
			return host
		}
	}
	panic(fmt.Sprintf("a fabric has NIC %v, which it was not given", nicid.ID(e.ID())))
}

// restarts notes that NIC 2 stops. Its sessions may end once.
func (w *intruderWatch) restarts(host int) {
	for peer := range intruderHonest {
		w.sessions[host][peer] = 0
		if peer != host {
			w.may[peer][host]++
		}
	}
	for on := range w.counters {
		if on.from == host {
			delete(w.counters, on)
		}
	}
}

// judge checks ids and names, while all processes are running.
func (w *intruderWatch) judge() {
	x := w.x
	for host := range intruderHonest {
		e := simulated.Engine(x.f, host)
		for _, n := range e.Nodes() {
			for peer := range intruderHonest {
				if at := simulated.Addr(x.f, peer); n.ID == x.ids[peer] && peer != host && (!n.Up || n.Addr != at) {
					x.violate("NIC %d believes NIC %d to be at %v, up: %v; it is at %v", host, peer, n.Addr, n.Up, at)
				}
			}
		}
		for name, owner := range x.honest.owners {
			if at, ok := e.Lookup(nameOf(name)); !ok || at.NIC != uint64(owner.NIC) || at.Slot != owner.Slot {
				x.violate("NIC %d believes that %s is at %v, and it is at %v", host, name, at, owner)
			}
		}
	}
	x.members.judge()
}

// judgeCounts checks the counters of the NICs.
func (w *intruderWatch) judgeCounts() {
	x := w.x
	var macs, replays, tags, unsealed, rekeys uint64
	for host := range intruderHonest {
		s := simulated.Engine(x.f, host).Transport()
		if err := s.Check(); err != nil {
			x.violate("the statistics of NIC %d do not fit: %v", host, err)
		}
		macs, replays, tags = macs+s.BadMACs, replays+s.Replays, tags+s.CRCErrors
		unsealed, rekeys = unsealed+s.Unsealed, rekeys+s.Rekeys
	}
	if min(macs, replays, tags, unsealed, rekeys) == 0 {
		x.violate("the NICs have refused %d frames by mac1, %d as replays, %d by their tags and %d as plain, "+
			"and began %d phases; expected some of each",
			macs, replays, tags, unsealed, rekeys)
	}
}
