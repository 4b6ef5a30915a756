package sweep

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/sim"
)

// hearsay is a small fabric in addition to the fabric of a run. Its NICs know only the first NIC,
// and learn about the others from each other. One NIC lies: it tells the others about NICs that
// do not exist, at addresses of hosts that have no NIC. Then a NIC joins. The fabric has its own
// promises:
//
//	a bystander gets at most limits.HearsayCallsPerHost·limits.HearsayHellos frames from each NIC
//	a NIC's table never holds more NICs than those that exist and those that it is calling
//	the NICs that exist find each other, and a NIC that joins does so at once
type hearsay struct {
	f   *sim.Fabric
	rng *rand.Rand
	// NICs: the first ones are honest. The next one is the liar, and the one after that joins
	// later.
	honest  int
	frames  map[[2]int]int // from a NIC to a bystander
	started time.Duration  // when the newcomer was started
	met     int            // processes that have exchanged messages with all others
	polls   int
	found   []string
	told    uint64 // records that the liar has sent
}

const (
	bystanders = 1000 // ports from here on have no host
	phantoms   = 400  // of which the liar tells each NIC
	joinWithin = 3 * time.Second
)

// runHearsay runs the fabric of a seed, and returns the violations and the number of false
// records.
func runHearsay(seed uint64, d mutate.Defect) (violations []string, told uint64) {
	r := &hearsay{rng: rand.New(rand.NewPCG(seed, 0x72756d6f7572)), frames: map[[2]int]int{}}
	r.honest = 2 + r.rng.IntN(3)
	r.f = sim.New(simulated.Hooked(sim.Config{
		Seed: seed, NICs: r.honest + 2, Replay: replay(seed, d), Faults: sim.Faults{Loss: 0.02 * r.rng.Float64()},
	}, simulated.Hooks{Defect: d, Check: r.check, Tap: r.tap, MaxEvents: maxEvents, Hearsay: true,
		Sealed: seed%2 == 0, Peers: func(_, b int) bool { return b == 0 }}))
	r.f.StopNIC(r.newcomer())
	for i := range r.honest {
		r.f.Process(i, heardName(i).String(), func(p *sim.Process) error { return r.meet(p, i, r.honest) })
	}
	r.f.Process(r.liar(), "liar/0", r.lie)
	r.f.Process(r.newcomer(), heardName(r.newcomer()).String(), r.join)
	if err := r.f.Run(time.Minute); err != nil {
		r.violate("%v", err)
	}
	worst := 0
	for _, n := range r.frames { // the order does not matter
		worst = max(worst, n)
	}
	if most := limits.HearsayCallsPerHost * limits.HearsayHellos; worst > most || worst == 0 {
		r.violate("a NIC has sent %d frames to a bystander; expected 1 to %d", worst, most)
	}
	return r.found, r.told
}

func (r *hearsay) liar() int     { return r.honest }
func (r *hearsay) newcomer() int { return r.honest + 1 }

func heardName(i int) weft.Name { return weft.Name{App: "heard", Index: uint32(i)} }

func (r *hearsay) violate(format string, args ...any) {
	r.found = append(r.found, fmt.Sprintf("hearsay, at %v: ", r.f.Elapsed())+fmt.Sprintf(format, args...))
}

// tap counts the frames to bystanders.
func (r *hearsay) tap(from, to int, _ []byte) {
	if to >= bystanders && from != r.liar() {
		r.frames[[2]int{from, to}]++
	}
}

// check audits the NICs from time to time.
func (r *hearsay) check(e *nic.Engine) error {
	if r.polls++; r.polls%checkEvery != 0 {
		return nil
	}
	if n, most := len(e.Nodes()), r.honest+1+limits.HearsayCalls; n > most {
		return fmt.Errorf("NIC %d has %d other NICs in its table; expected at most %d", e.ID()-nicID(0), n, most)
	}
	return e.Limits()
}

// meet exchanges a message with each process of the first n NICs.
func (r *hearsay) meet(p *sim.Process, i, n int) error {
	ctx, cancel := p.Runtime().WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for k := range n {
		if k == i {
			continue
		}
		if _, err := p.WaitName(ctx, heardName(k)); err != nil {
			r.violate("NIC %d does not find NIC %d: %v", i, k, err)
			return nil
		}
		if err := p.Peer(heardName(k)).SendDelivered(ctx, 1, []byte("here")); err != nil {
			r.violate("NIC %d does not reach NIC %d: %v", i, k, err)
		}
	}
	r.met++
	// Time for the names to stay, and for the calls to end.
	for r.started == 0 || r.f.Elapsed() < r.started+10*time.Second {
		p.Runtime().Sleep(context.Background(), 10*time.Millisecond)
	}
	return nil
}

// lie tells the honest NICs about phantoms. In the middle of this, another NIC joins.
func (r *hearsay) lie(p *sim.Process) error {
	for r.met < r.honest {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	hosts, joins := 1+r.rng.IntN(3), r.rng.IntN(phantoms)
	for n := range phantoms {
		if n == joins {
			r.started = r.f.Elapsed()
			r.f.StartNIC(r.newcomer())
		}
		for to := range r.honest {
			at := bystanders + r.rng.IntN(hosts)
			if simulated.Engine(r.f, r.liar()).Utter(nicID(to), phantom(r.rng.Uint64()|1<<63, at)) {
				r.told++
			}
		}
		simulated.Turn(r.f, r.liar())
		p.Runtime().Sleep(context.Background(), time.Duration(r.rng.ExpFloat64()*float64(time.Millisecond)))
	}
	return nil
}

// phantom returns a record about a NIC at a port that no host has.
func phantom(id uint64, port int) wire.Record {
	const length = 32 // internal/names/record.go
	b := make([]byte, wire.RecordLen+length)
	wire.PutTable(b, length)
	node := b[wire.RecordLen:]
	// sim/network.go: fd57::(port+1), port 1.
	node[0], node[4], node[8], node[9] = wire.TableNode, 1, 0xfd, 0x57
	binary.BigEndian.PutUint32(node[20:], uint32(port+1))
	binary.LittleEndian.PutUint64(node[24:], id)
	return b
}

// join is the main function of the process at the joining NIC.
func (r *hearsay) join(p *sim.Process) error {
	if d := r.f.Elapsed() - r.started; d > joinWithin {
		r.violate("the newcomer has its name after %v", d)
	}
	return r.meet(p, r.newcomer(), r.honest)
}
