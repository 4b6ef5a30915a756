package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

// contest is a small fabric in addition to the fabric of a run. Its processes claim the same
// names at the same moments, at any of its NICs. It has its own promises (decision 15):
//
//	while the fabric is connected, no two processes have the same name, and none loses its name
//	a refused process is told which process has the name; that one has it, or had it a moment ago
//	the lookup of a name returns the process that has it, or had it a moment ago
//	if two processes kept a name across a partition, the one at the NIC with the lower id keeps it
//	at rest, also after partitions, a name has at most one owner, and every NIC finds this owner
//	the names of processes and of NICs that are gone are gone everywhere
type contest struct {
	f       *sim.Fabric
	rng     *rand.Rand
	nics    int
	names   []vni.Name
	stormy  bool // the fabric is partitioned at times, and NICs vanish
	closing bool
	// A NIC has vanished. Its next life is a newcomer, for which the claims that it sees first
	// are valid.
	gone  bool
	all   []*contender
	done  uint64
	polls int
	found []string
}

// contender is a process that claims a name.
type contender struct {
	c    *contest
	name vni.Name
	host int
	proc *sim.Process
	died bool // it was killed; its claim may not have been answered
	fate fate
	came time.Duration // when it claimed the name
	held bool          // this will be later, because its NIC was not running
	got  time.Duration // when it got the name
	gone time.Duration // when it ended, lost its name or vanished
	told string        // refused: which process has the name
	were []uint16      // slots from which it claimed the name in earlier lives of its NIC
}

type fate uint8

const (
	claims fate = iota
	has
	refused
	lost  // its name, to another claim
	ended // by itself, or with its NIC
)

const (
	contestLasts = 3 * time.Second
	newsTakes    = time.Second // until all NICs know of an end, with frames lost
)

// runContest runs the contest of a seed, and returns the violations and the number of claims.
func runContest(seed uint64, d mutate.Defect) (violations []string, done uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x6e616d6573))
	c := &contest{rng: rng, nics: 2 + rng.IntN(5), stormy: rng.IntN(3) == 0}
	rate := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	c.f = sim.New(simulated.Hooked(sim.Config{
		Seed: seed, NICs: c.nics, Replay: replay(seed, d),
		Faults: sim.Faults{Loss: rate(0.05), Duplicate: rate(0.05), Reorder: rate(0.1), Corrupt: rate(0.01)},
	}, sealed(seed, simulated.Hooks{Defect: d, Refused: c.refused, Check: c.check})))
	for i := range 1 + rng.IntN(4) {
		name, err := vni.ParseName(fmt.Sprintf("prize/%d", i))
		if err != nil {
			panic(err)
		}
		c.names = append(c.names, name)
	}
	c.f.Process(0, "umpire/0", c.main)
	if err := c.f.Run(time.Minute); err != nil {
		c.violate("%v", err)
	}
	return c.found, c.done
}

func (c *contest) violate(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("contest, at %v: ", c.f.Elapsed())+fmt.Sprintf(format, args...))
}

// check audits a NIC from time to time.
func (c *contest) check(e *nic.Engine) error {
	if c.polls++; c.polls%checkEvery != 0 {
		return nil
	}
	return e.Limits()
}

// main runs one round after another, and then checks what every NIC knows.
func (c *contest) main(p *sim.Process) error {
	c.division(p)
	for until := c.f.Elapsed() + contestLasts; c.f.Elapsed() < until; {
		c.round()
		p.Runtime().Sleep(context.Background(), time.Duration(c.rng.ExpFloat64()*float64(pick(c.rng, time.Millisecond,
			20*time.Millisecond, 200*time.Millisecond))))
		c.look()
		if c.stormy && c.rng.IntN(8) == 0 {
			c.storm()
		}
	}
	c.closing = true
	c.finale(p)
	// Time for the partitions to heal, and for the NICs to forget the processes and NICs that are
	// gone.
	p.Runtime().Sleep(context.Background(), 20*time.Second)
	c.atRest()
	return nil
}

// round makes some processes claim one name, simultaneously or nearly so.
func (c *contest) round() {
	name := pick(c.rng, c.names...)
	spread := pick(c.rng, 0, 30*time.Microsecond, time.Millisecond)
	for range 1 + c.rng.IntN(4) {
		host := c.rng.IntN(c.nics)
		c.f.After(time.Duration(c.rng.Int64N(int64(spread)+1)), func() { c.enter(name, host) })
	}
}

// enter starts a process on a host that claims a name. The process may die while its claim is in
// flight.
func (c *contest) enter(name vni.Name, host int) {
	m := c.claim(name, host)
	if c.rng.IntN(8) == 0 {
		c.f.After(time.Duration(c.rng.Int64N(int64(200*time.Microsecond))), m.dies)
	}
}

// claim starts a process on a host that claims a name.
func (c *contest) claim(name vni.Name, host int) *contender {
	m := &contender{c: c, name: name, host: host}
	c.all = append(c.all, m)
	c.done++
	m.came, m.held = c.f.Elapsed(), simulated.Engine(c.f, host) == nil
	m.proc = c.f.Serve(host, name.String(), m.main)
	return m
}

// dies kills a contender, usually while its claim is in flight.
func (m *contender) dies() {
	if m.proc.Over() {
		return
	}
	m.died = true
	m.c.f.Kill(m.proc)
	m.leaves(ended)
}

// main is the function of a contender that has the name. It keeps the name for a while.
func (m *contender) main(p *sim.Process) error {
	c := m.c
	for _, o := range c.all {
		if o != m && o.fate == has && o.name == m.name && !c.stormy {
			c.violate("%v is had by NIC %d, and by NIC %d", m.name, o.host, m.host)
		}
	}
	m.proc, m.fate, m.got = p, has, c.f.Elapsed()
	defer m.leaves(ended)
	seg, _ := simulated.VNI(p)
	half := seg.Process()
	for until := c.f.Elapsed() + time.Duration(c.rng.ExpFloat64()*float64(
		300*time.Millisecond)); c.closing || c.f.Elapsed() < until; {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
		switch half.Gone() {
		case vni.StatusOK:
			continue
		case vni.StatusNameLost:
			if !c.stormy {
				c.violate("the process of NIC %d has lost %v, though nothing was divided", m.host, m.name)
			}
			m.leaves(lost)
			m.loses(half)
		}
		return nil
	}
	return nil
}

// loses checks that a name was lost to a process that claimed it. If both processes had the name
// for longer than newsTakes, each was confirmed on its own side of a partition, and the winner's
// NIC must have the lower id.
func (m *contender) loses(half *vni.Process) {
	for ev, _, ok := half.NextEvent(); ok; ev, _, ok = half.NextEvent() {
		if ev.Kind != vni.EventNameLost {
			continue
		}
		o := m.c.at(m.name, vni.Address{NIC: ev.NIC, Slot: ev.Slot, Gen: ev.Gen})
		now := m.c.f.Elapsed()
		switch {
		case o == nil:
			m.c.violate("NIC %d has lost %v to one that never claimed it: %v", m.host, m.name, ev)
		case o.host > m.host && !m.c.gone && o.fate == has && now-m.got > newsTakes && now-o.got > newsTakes:
			m.c.violate("NIC %d has lost %v, which it got at %v, to NIC %d, which got it at %v", m.host, m.name,
				m.got, o.host, o.got)
		}
	}
}

func (m *contender) leaves(f fate) {
	if m.fate == has || m.fate == claims {
		m.fate, m.gone = f, m.c.f.Elapsed()
	}
}

// refused handles the end of a claim.
func (c *contest) refused(process any, err error) {
	p := process.(*sim.Process)
	i := slices.IndexFunc(c.all,
		func(m *contender) bool { return m.proc == p || m.proc == nil && m.fate == claims && m.host == p.Host() })
	if i < 0 || !errors.Is(err, nic.ErrNameTaken) {
		c.violate("a claim ended with %v", err)
		return
	}
	c.all[i].fate, c.all[i].gone, c.all[i].told = refused, c.f.Elapsed(), err.Error()
}

// storm partitions the fabric for a while, or stops a NIC.
func (c *contest) storm() {
	lasting := time.Duration(c.rng.ExpFloat64() * float64(2*time.Second))
	host := 1 + c.rng.IntN(c.nics-1) // the umpire's NIC stays
	if c.rng.IntN(2) == 0 {
		c.f.After(lasting, c.f.Partition(host))
		return
	}
	c.vanish(host)
	if c.rng.IntN(3) > 0 {
		c.f.After(lasting, func() { c.f.StartNIC(host) })
	}
}

// vanish stops a NIC. The names of its processes end with it.
func (c *contest) vanish(host int) {
	for _, m := range c.all {
		switch {
		case m.host == host && m.fate == has:
			m.leaves(ended)
		case m.host == host && m.fate == claims:
			m.held = true
			if slot, _ := simulated.Slot(m.proc); slot != 0 {
				m.were = append(m.were, slot)
			}
		}
	}
	c.gone = true
	c.f.StopNIC(host)
}

// owner returns the contender that considers itself the owner of a name.
func (c *contest) owner(name vni.Name) *contender {
	for _, m := range c.all {
		if m.name == name && m.fate == has {
			return m
		}
	}
	return nil
}

// look looks up a name at some NIC.
func (c *contest) look() {
	name, host := pick(c.rng, c.names...), c.rng.IntN(c.nics)
	e := simulated.Engine(c.f, host)
	if e == nil || c.stormy {
		return
	}
	at, ok := e.Lookup(name)
	if !ok {
		return
	}
	if m := c.at(name, at); m == nil || m.fate != has && m.fate != claims && c.f.Elapsed()-m.gone > newsTakes {
		c.violate("NIC %d finds %v at slot %d of NIC %d, which does not have it", host, name, at.Slot, at.NIC-nicID(0))
	}
}

// at returns the contender with an address. If a contender died before its claim was answered,
// its generation is not known.
func (c *contest) at(name vni.Name, at vni.Address) (found *contender) {
	for _, m := range c.all {
		if slot, gen := simulated.Slot(m.proc); m.name == name && nicID(m.host) == at.NIC && slot == at.Slot &&
			(gen == at.Gen || found == nil && m.died) {
			found = m
		}
	}
	return found
}

// atRest checks what every NIC knows after a long time without changes.
func (c *contest) atRest() {
	for host := range c.nics {
		e := simulated.Engine(c.f, host)
		if e == nil {
			continue
		}
		known := 1 // the umpire
		for _, name := range c.names {
			m := c.owner(name)
			at, ok := e.Lookup(name)
			switch {
			case m == nil && ok:
				c.violate("NIC %d finds %v at slot %d of NIC %d; it has gone", host, name, at.Slot, at.NIC-nicID(0))
			case m != nil && (!ok || c.at(name, at) != m):
				c.violate("NIC %d finds %v at %+v, %v; NIC %d has it", host, name, at, ok, m.host)
			case m != nil:
				known++
			}
		}
		if l := e.Names(); len(l) != known {
			c.violate("NIC %d knows %d names of %d: %v", host, len(l), known, l)
		}
		for _, leak := range e.Leaks() {
			c.violate("NIC %d leaks: %s", host, leak)
		}
	}
	for _, m := range c.all {
		c.judge(m)
	}
}

var address = regexp.MustCompile(`slot (\d+) of NIC ([\d:]+)$`)

// judge checks how a claim ended.
func (c *contest) judge(m *contender) {
	for _, o := range c.all {
		if o != m && o.name == m.name && o.fate == has && m.fate == has {
			c.violate("%v has two owners, at NIC %d and NIC %d", m.name, m.host, o.host)
		}
	}
	if m.fate == claims && simulated.Engine(c.f, m.host) != nil && !m.proc.Over() {
		c.violate("the claim of NIC %d to %v has not ended", m.host, m.name)
	}
	if m.fate != refused {
		return
	}
	found := address.FindStringSubmatch(m.told)
	if found == nil {
		c.violate("a process that was refused was not told which has the name: %s", m.told)
		return
	}
	slot, _ := strconv.Atoi(found[1])
	id, err := registry.ParseNICID(found[2])
	if err != nil || !slices.ContainsFunc(c.all, func(o *contender) bool {
		s, _ := simulated.Slot(o.proc)
		at := int(s) == slot || slices.Contains(o.were, uint16(slot))
		return o != m && o.name == m.name && at && nicID(o.host) == uint64(id) &&
			(c.stormy || o.fate != refused && o.fate != claims && (o.fate == has || m.gone-o.gone <= newsTakes))
	}) {
		c.violate("NIC %d was refused %v because of one that never had it: %s", m.host, m.name, m.told)
	}
}
