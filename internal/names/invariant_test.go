package names

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// consistent reports which parts of a table contradict one another.
func (n *node) consistent() error {
	return errors.Join(n.consistentCalls(), n.consistentClaims(), n.consistentPeers())
}

// consistentCalls checks that each call on hearsay is counted for its teller, and in all.
func (n *node) consistentCalls() error {
	h, calls := &n.hearsay, make(map[*Peer]int)
	for _, r := range h.rumours {
		if r.call == nil {
			continue
		}
		calls[r.teller]++
		if r.call.hearsay != r || !slices.Contains(n.peers, r.call) {
			return fmt.Errorf("the call of NIC %d is that of no peer", r.id)
		}
	}
	all := 0
	for _, p := range n.peers {
		all += p.calls
		if p.calls != calls[p] || p.credit > limits.HearsayPerTeller || p.hearsay != nil && p.hearsay.call != p {
			return fmt.Errorf("%d calls are counted for NIC %d, which has told of %d; its credit is %d", p.calls, p.NIC(), calls[p], p.credit)
		}
	}
	if all != h.calls || h.calls > limits.HearsayCalls || len(h.rumours) > limits.Hearsay {
		return fmt.Errorf("%d calls are counted, and %d are made", h.calls, all)
	}
	return nil
}

// consistentClaims checks that each entry is found in every index, and that each index leads to
// an entry.
func (n *node) consistentClaims() error {
	listed := 0
	for name, l := range n.claims {
		for _, e := range l {
			if e.out || e.Name != name || n.byAddr[e.Address] != e {
				return fmt.Errorf("%v is listed as a claim to %v", e, name)
			}
		}
		if listed += len(l); len(l) == 0 {
			return fmt.Errorf("no claim is listed to %v", name)
		}
	}
	owned := 0
	for _, k := range n.owned {
		owned += k
	}
	if listed != owned || listed != len(n.byAddr) {
		return fmt.Errorf("%d claims are listed, %d are counted, %d are found by their addresses", listed, owned, len(n.byAddr))
	}
	for _, e := range n.open {
		if !e.out && !slices.Contains(n.claims[e.Name], e) {
			return fmt.Errorf("the open claim of %v is not listed", e)
		}
	}
	return nil
}

// consistentPeers checks the state of each peer against its session.
func (n *node) consistentPeers() error {
	for i, p := range n.peers {
		switch {
		case p.named && !p.added, p.removed && p.added:
			return fmt.Errorf("NIC %d is named %v, added %v, removed %v", p.NIC(), p.named, p.added, p.removed)
		case p.synced && !p.told, p.told && !p.Up():
			return fmt.Errorf("NIC %d has told %v, synced %v, up %v", p.NIC(), p.told, p.synced, p.Up())
		case p.Up() && p.failed, p.Up() && p.hearsay != nil:
			return fmt.Errorf("NIC %d is up, and has failed %v", p.NIC(), p.failed)
		case slices.Contains(n.peers[:i], p):
			return fmt.Errorf("NIC %d is listed twice", p.NIC())
		}
	}
	return nil
}

// wantSettled checks that nothing is undecided in the fabric, that all NICs were told of each
// existing process, and that no NIC is probed for a claim.
func (f *fabric) wantSettled() {
	f.t.Helper()
	for _, n := range f.nics {
		if len(n.open) != 0 || len(n.contests) != 0 || len(n.due) != 0 || n.Changed() {
			f.t.Errorf("NIC %d: %d claims are open, %d contested, %d due", n.id, len(n.open), len(n.contests), len(n.due))
		}
		for a, e := range n.byAddr {
			if e.Live() && n.named[a] == 0 {
				f.t.Errorf("NIC %d: the engine was not told of %v", n.id, e)
			}
		}
		for _, p := range n.peers {
			if !p.looked && !p.doubted && !p.leaving && watched(p) {
				f.t.Errorf("NIC %d probes NIC %d for nothing", n.id, p.NIC())
			}
		}
	}
}

// watched reports whether something waits for a peer: only then may a wait end.
func watched(p *Peer) (yes bool) {
	defer func() {
		_ = recover()
		p.Watch(1)
	}()
	p.Watch(-1)
	return true
}

// told is a record of a process, as its NIC tells it.
type told struct {
	op, part byte
	slot     uint16
	gen      uint32
	number   uint32
	life     uint64
	name     vni.Name
}

func (r told) record() []byte {
	b := make([]byte, claimLen)
	b[0], b[1] = r.op, r.part
	le.PutUint16(b[2:], r.slot)
	le.PutUint32(b[4:], r.gen)
	le.PutUint64(b[8:], r.life)
	le.PutUint32(b[16:], r.name.Index)
	copy(b[20:], r.name.App[:])
	le.PutUint32(b[44:], r.number)
	return b
}

// takes passes a record from another NIC to a NIC.
func (n *node) takes(from uint64, b []byte) {
	n.f.t.Helper()
	if !n.Take(n.Peer(from), b) {
		n.f.t.Fatalf("% x is no record of names", b[:4])
	}
}
