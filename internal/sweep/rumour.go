package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// rumour is a small fabric in addition to the fabric of a run. Its processes send multicasts to
// all others, and one of its NICs alters the relays that it passes on: message, tag, numbers,
// list. It has its own promises:
//
//	each receiver gets every message of a sender once, in order, with its bytes and its tag
//	every multicast succeeds
//	a NIC refuses a relay only if something was altered, and some altered relays are refused
type rumour struct {
	f       *sim.Fabric
	rng     *rand.Rand // for the hostile NIC
	nics    int
	hostile int     // host of the hostile NIC
	share   float64 // share of the passed pieces that it alters
	altered uint64  // pieces altered
	done    int     // senders and listeners that have finished
	polls   int
	found   []string
}

const (
	rumourSenders  = 3
	rumourMessages = 24 // from each sender
	rumourLimit    = time.Minute
)

// runRumour runs the fabric of a seed. It returns the violations and the number of altered
// pieces.
func runRumour(seed uint64, d mutate.Defect) (violations []string, altered uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x72756d6f7572))
	r := &rumour{rng: rng, nics: 6 + rng.IntN(6), share: pick(rng, 0.2, 0.6, 1)}
	// In this sender's list it comes first, with others below it.
	r.hostile = r.sender(rng.IntN(rumourSenders)) + 1
	faults := sim.Faults{}
	if rng.IntN(3) == 0 {
		faults = sim.Faults{Loss: 0.01, Duplicate: 0.01, Reorder: 0.02}
	}
	r.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: r.nics, Faults: faults, Replay: replay(seed, d)},
		sealed(seed, simulated.Hooks{Defect: d, Check: r.check, MaxEvents: maxEvents, RelaySaves: -1})))
	simulated.Engine(r.f, r.hostile).AlterRelays(r.alter)
	for i := range r.nics {
		r.f.Process(i, rumourName(i).String(), func(p *sim.Process) error { return r.main(p, i) })
	}
	if err := r.f.Run(rumourLimit); err != nil {
		r.violate("%v", err)
	} else if refused := r.refused(); r.altered == 0 || refused == 0 {
		r.violate("%d pieces of relays were altered, and the NICs have refused %d relays", r.altered, refused)
	}
	return r.found, r.altered
}

func rumourName(i int) weft.Name { return weft.Name{App: "hears", Index: uint32(i)} }

func (r *rumour) violate(format string, args ...any) {
	r.found = append(r.found, fmt.Sprintf("rumour, at %v: ", r.f.Elapsed())+fmt.Sprintf(format, args...))
}

// alter changes some bytes of a piece. Half of the changes are near its beginning, which holds
// the head and the list.
func (r *rumour) alter(piece []byte, _ int) {
	if r.rng.Float64() >= r.share {
		return
	}
	r.altered++
	for range 1 + r.rng.IntN(3) {
		piece[r.rng.IntN(pick(r.rng, min(len(piece), 100), len(piece)))] ^= byte(1 + r.rng.IntN(255))
	}
}

func (r *rumour) check(e *nic.Engine) error {
	if n := e.Count(vni.NICRefusedRelay); n > 0 && r.altered == 0 {
		return fmt.Errorf("%d relays were refused, and none was altered", n)
	}
	if r.polls++; r.polls%checkEvery != 0 {
		return nil
	}
	return e.Limits()
}

// refused counts the relays that the NICs have refused.
func (r *rumour) refused() (n uint64) {
	for host := range r.nics {
		n += simulated.Engine(r.f, host).Count(vni.NICRefusedRelay)
	}
	return n
}

// sender returns the host of a sender. Senders are spread over the NICs.
func (r *rumour) sender(k int) int { return k * (r.nics / rumourSenders) }

// main listens to every sender, and sends if it is one.
func (r *rumour) main(p *sim.Process, i int) error {
	for k := range r.nics {
		if _, err := p.WaitName(context.Background(), rumourName(k)); err != nil {
			return err
		}
	}
	for k := range rumourSenders {
		if from := r.sender(k); from != i {
			p.Start(fmt.Sprintf("from %d", from), func(p *sim.Process) error { return r.listen(p, from, i) })
		} else {
			p.Start("sends", func(p *sim.Process) error { return r.send(p, i) })
		}
	}
	for r.done < rumourSenders*r.nics {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	return nil
}

// rumourMessage returns the id, the length and the tag of message n of a sender.
func rumourMessage(from, n int) (id uint64, size int, tag weft.Tag) {
	sizes := []int{8, 60, 700, 3000, limits.StagedMessage}
	return uint64(from)<<32 | uint64(n), sizes[(from+n)%len(sizes)], weft.Tag(1 + n)
}

func (r *rumour) send(p *sim.Process, i int) error {
	var to []weft.Name
	for k := range r.nics {
		if k != i {
			to = append(to, rumourName(k))
		}
	}
	for n := range rumourMessages {
		id, size, tag := rumourMessage(i, n)
		if err := p.Multicast(context.Background(), to, tag, fillTalk(make([]byte, size), id)); err != nil {
			r.violate("multicast %d of %v: %v", n, rumourName(i), err)
		}
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().ExpFloat64()*float64(300*time.Microsecond)))
	}
	r.done++
	return nil
}

func (r *rumour) listen(p *sim.Process, from, i int) error {
	buf := make([]byte, limits.StagedMessage)
	for n := range rumourMessages {
		id, size, tag := rumourMessage(from, n)
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), rumourLimit/2)
		m, err := p.Recv(ctx, rumourName(from), weft.AnyTag, buf)
		cancel()
		if err != nil {
			r.violate("message %d from %v to %v does not come: %v", n, rumourName(from), rumourName(i), err)
			break
		}
		if m.Len != size || m.Tag != tag {
			r.violate("message %d from %v to %v came with %d bytes and tag %d; sent were %d and %d", n,
				rumourName(from), rumourName(i), m.Len, m.Tag, size, tag)
		} else if err := checkTalk(buf[:m.Len], id); err != nil {
			r.violate("message %d from %v to %v: %v", n, rumourName(from), rumourName(i), err)
		}
	}
	r.done++
	return nil
}
