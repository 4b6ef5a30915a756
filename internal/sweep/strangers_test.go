package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/sim"
)

// These tests try the attacks that a review made on plain links on sealed links. The attacker's
// host is number 2.

const reviewFabricKey = "a simulated fabric" // from sim/sealed.go

// pair holds two sealed NICs, and a host without a NIC. index holds the session indices of the
// frames from NIC 0 to NIC 1 and of those in the other direction.
type pair struct {
	f     *sim.Fabric
	index [2]uint32
	sent  int // bytes from the NICs to the attacker's host
}

func newPair(change func(host int, s *rel.Security)) *pair {
	p := &pair{}
	p.f = sim.New(simulated.Hooked(sim.Config{Seed: sim.Seed(1), NICs: 3}, simulated.Hooks{
		Sealed: true, Security: change, Peers: func(a, b int) bool { return a < 2 && b < 2 },
		Tap: func(from, to int, frame []byte) {
			if to == 2 {
				p.sent += len(frame)
			} else if o, _, err := wire.ParseOuter(frame); err == nil && from < 2 && o.Kind == wire.KindData {
				p.index[from] = o.Index
			}
		},
	}))
	p.f.StopNIC(2)
	return p
}

// exchange sends messages from a process on NIC 0 to a process on NIC 1. attack runs when half of
// them have arrived.
func (p *pair) exchange(attack func(q *sim.Process)) error {
	from, to := weft.Name{App: "sends"}, weft.Name{App: "takes"}
	p.f.Process(0, from.String(), func(q *sim.Process) error {
		for n := range 20 {
			if n == 10 {
				attack(q)
			}
			if err := q.Peer(to).SendDelivered(context.Background(), 1, saneMessage(0, 1, n)); err != nil {
				return fmt.Errorf("message %d: %w", n, err)
			}
		}
		return nil
	})
	p.f.Process(1, to.String(), func(q *sim.Process) error {
		for n := range 20 {
			want := saneMessage(0, 1, n)
			got := make([]byte, len(want))
			if m, err := q.Recv(context.Background(), from, 1, got); err != nil || string(got[:m.Len]) != string(want) {
				return fmt.Errorf("message %d came with other bytes: %w", n, err)
			}
		}
		// Otherwise the last send may find that its receiver has ended.
		q.Runtime().Sleep(context.Background(), time.Second)
		return nil
	})
	return p.f.Run(time.Minute)
}

// In the review, the attack knew neither keys nor cookies. Here the attacker also knows the
// indices and the counters.
func TestForgedFramesOf32BytesEndNoSession(t *testing.T) {
	const forged = 12_000
	p := newPair(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var before [2]uint32
	err := p.exchange(func(q *sim.Process) {
		for host := range before {
			before[host] = simulated.Engine(p.f, host).Session(nicID(1 - host))
		}
		for n := range forged {
			b := make([]byte, 32)
			to := n % 2
			wire.Outer{Kind: wire.KindGoodbye, Flags: wire.FlagSealed, Index: p.index[1-to], Counter: uint64(30 + n)}.Put(b)
			for i := 16; i < 32; i++ {
				b[i] = byte(rng.Uint32())
			}
			simulated.Inject(p.f, 1-to, to, b)
			if n%50 == 0 {
				q.Runtime().Sleep(context.Background(), time.Millisecond)
			}
		}
		q.Runtime().Sleep(context.Background(), 50*time.Millisecond)
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := uint64(0)
	for host := range before {
		e := simulated.Engine(p.f, host)
		if now := e.Session(nicID(1 - host)); now != before[host] || now == 0 {
			t.Errorf("NIC %d had session %x and has %x", host, before[host], now)
		}
		refused += e.Transport().CRCErrors + e.Transport().Replays
	}
	if refused < forged {
		t.Errorf("%d of %d forged frames were refused", refused, forged)
	}
}

// Hellos arrive in the name of NIC 1, with a later life than any other: some without the fabric
// key, and some from a member of the fabric that has another static key.
func TestNoHelloTakesANICsID(t *testing.T) {
	var own trust.FabricKey
	copy(own[:], reviewFabricKey)
	for _, c := range []struct {
		what   string
		fabric trust.FabricKey
		from   int // host
		count  func(s *rel.Stats) uint64
	}{
		{"a stranger", trust.FabricKey{'g', 'u', 'e', 's', 's'}, 2, func(s *rel.Stats) uint64 { return s.BadMACs }},
		{"a member", own, 2, func(s *rel.Stats) uint64 { return s.Refused }},
		{"a member, from the address of NIC 1", own, 1, func(s *rel.Stats) uint64 { return s.HelloReceives }},
	} {
		p := newPair(nil)
		secrets := secret.Seeded(7)
		gate := seal.NewGate([]trust.FabricKey{c.fabric}, secrets)
		hs := seal.Initiate(seal.NewIdentity(trust.PrivateKey{1, 2, 3}), nil,
			seal.Options{Psk: gate.Psk(0), Prologue: []byte("weft"), Random: secrets.Reader(secret.Handshake)})
		h := wire.Hello{
			MinVersion: 1, MaxVersion: 1, Index: 5 << 20, NIC: nicID(1), Incarnation: 1 << 63, EchoCounter: 1 << 62,
			MTUCommand: 1452, MTUData: 1452, WinCommand: 4096, WinData: 4096, ReceiveCapacity: 1 << 20,
		}
		th := &thief{}
		hello := th.frame(h, hs, gate, 1200)
		counted := uint64(0)
		if err := p.exchange(func(q *sim.Process) {
			counted = c.count(simulated.Engine(p.f, 0).Transport())
			for range 10 {
				simulated.Inject(p.f, c.from, 0, hello)
				q.Runtime().Sleep(context.Background(), time.Millisecond)
			}
		}); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		e := simulated.Engine(p.f, 0)
		for _, n := range e.Nodes() {
			if n.ID == nicID(1) && (n.Addr != simulated.Addr(p.f, 1) || !n.Up || n.Incarnation != 1) {
				t.Errorf("%s: NIC 1 is thought to be at %v, up: %v, life %d", c.what, n.Addr, n.Up, n.Incarnation)
			}
		}
		if now := c.count(e.Transport()); now < counted+10 || p.sent > 0 {
			t.Errorf("%s: %d Hellos were counted, and %d bytes went to the attacker", c.what, now-counted, p.sent)
		}
	}
}

// On plain links, refusing an attach was no protection: an attacker's own NIC could still send.
// Now it needs the fabric key.
func TestANICOfAnotherFabricKeySendsNothing(t *testing.T) {
	p := newPair(func(host int, s *rel.Security) {
		if host == 0 {
			s.Fabric = []trust.FabricKey{{'m', 'i', 'n', 'e'}}
		}
	})
	heard := 0
	p.f.Serve(1, "takes/0", func(q *sim.Process) error {
		for {
			if _, err := q.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, make([]byte, 100)); err == nil {
				heard++
			}
		}
	})
	p.f.Process(0, "sends/0", func(q *sim.Process) error {
		ctx, cancel := q.Runtime().WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := q.Send(ctx, weft.Name{App: "takes"}, 1, []byte("let me in")); err == nil || errors.Is(err, weft.ErrNICGone) {
			return fmt.Errorf("a send to a NIC of another fabric ends with %w", err)
		}
		return nil
	})
	if err := p.f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	for host := range 2 {
		e := simulated.Engine(p.f, host)
		if s := e.Session(nicID(1 - host)); s != 0 || e.Transport().BadMACs == 0 {
			t.Errorf("NIC %d has session %x with the other, and has refused %d frames by mac1", host, s, e.Transport().BadMACs)
		}
	}
	if heard > 0 {
		t.Errorf("%d messages came", heard)
	}
}
