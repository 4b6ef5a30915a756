package sweep

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/sim"
)

// intruder is a small sealed fabric in addition to the fabric of a run. Attackers control its
// network. They read every frame, lose some, replay and alter others, and forge frames:
//
//	hosts 0 to 2   honest NICs, whose processes work together; NIC 2 restarts once
//	host 3         a member with a bad key or certificate, or that turns bad (intrudermembers.go)
//	host 4         a thief: it has the fabric key, but the key of no NIC (intruderhello.go)
//	host 5         a bystander: frames are replayed from its address
//	host 6         a stranger: it has no key
//
// The promises of the run are in intruderwatch.go.
type intruder struct {
	seed    uint64
	f       *sim.Fabric
	rng     *rand.Rand // for the attacks
	defect  mutate.Defect
	keys    [intruderHosts]trust.PrivateKey
	ids     []uint64
	long    bool // enough frames that some leave the replay window
	flood   bool // a flood of Hellos
	loses   bool // attackers lose frames of handshakes
	found   []string
	attacks Attacks

	members *members
	watch   *intruderWatch
	tape    tape
	thief   *thief
	honest  honest
	grams   *datagrams
	deafAt  time.Duration // when the last deafness began
	deaf    [intruderHonest][intruderHonest]time.Duration
	lost    map[lostFrame]int
}

// Attacks counts the attacks on sealed fabrics.
type Attacks struct {
	Replayed  uint64 `json:"frames_replayed"`
	Edge      uint64 `json:"replayed_at_the_edge"`  // at the edge of the replay window
	Late      uint64 `json:"replayed_too_late"`     // older than the window
	OldKeys   uint64 `json:"replayed_of_old_keys"`  // from an earlier phase
	OldLives  uint64 `json:"replayed_of_old_lives"` // from an earlier session
	Flipped   uint64 `json:"frames_altered"`
	Forged    uint64 `json:"frames_forged"`
	Plain     uint64 `json:"plain_frames"`          // and downgraded frames
	Strangers uint64 `json:"hellos_of_strangers"`   // without the fabric key
	Thieves   uint64 `json:"hellos_of_thieves"`     // in the name of another NIC
	Flood     uint64 `json:"hellos_of_floods"`      // in the names of NICs that do not exist
	Elsewhere uint64 `json:"frames_from_elsewhere"` // replayed from the address of a bystander
	Withheld  uint64 `json:"handshakes_withheld"`   // handshake frames that attackers lost
	Deaf      uint64 `json:"deafened"`              // times that a NIC could not hear another
	Untrusted uint64 `json:"untrusted_members"`     // with a bad key or certificate
	// Whose certificate was revoked or expired during the run.
	Revoked uint64 `json:"revoked_members"`
}

// total returns the number of attacks of all kinds.
func (a Attacks) total() (n uint64) {
	for v, i := reflect.ValueOf(a), 0; i < v.NumField(); i++ {
		n += v.Field(i).Uint()
	}
	return n
}

const (
	intruderHonest = 3
	hostMember     = 3
	hostThief      = 4
	hostBystander  = 5
	hostStranger   = 6
	intruderHosts  = 7

	intruderUnreachable = 100 * time.Millisecond
	intruderLimit       = 20 * time.Second
	intruderEvery       = 150 * time.Microsecond // mean time between two attacks
	// Maximum number of attacks, without those on passing frames.
	intruderSteps = 400
)

// intruderPace makes keys change many times in a run.
var intruderPace = rel.Pace{Phase: seal.Pace{Frames: 150, Time: 4 * time.Millisecond},
	RenewAfter: 40 * time.Millisecond}

// runIntruder runs the fabric of a seed, and returns the violations and the attacks.
func runIntruder(seed uint64, d mutate.Defect) (violations []string, attacks Attacks) {
	x := newIntruder(seed, d)
	for host := hostThief; host < intruderHosts; host++ {
		x.f.StopNIC(host) // its address remains
	}
	x.honest.begin()
	x.members.begin()
	if x.flood {
		x.thief.flood()
	}
	x.f.After(intruderEvery, func() { x.step(0) })
	if err := x.f.Run(intruderLimit); err != nil {
		x.violate("%v", err)
	} else {
		x.watch.judgeCounts()
	}
	return x.found, x.attacks
}

func newIntruder(seed uint64, d mutate.Defect) *intruder {
	rng := rand.New(rand.NewPCG(seed, 0x696e74727564))
	x := &intruder{seed: seed, rng: rng, defect: d, long: seed%4 == 2, flood: seed%8 == 1, loses: rng.IntN(4) > 0,
		lost: map[lostFrame]int{}}
	for host := range x.keys {
		copy(x.keys[host][:], fmt.Sprintf("a NIC of an attacked fabric %d %d", host, seed))
		x.ids = append(x.ids, uint64(x.keys[host].Public().ID()))
	}
	x.members, x.watch, x.thief = newMembers(x), newIntruderWatch(x), newThief(x)
	x.honest.x = x
	x.grams = newDatagrams(seed, intruderHonest, x.violate)
	x.grams.every, x.grams.id = 150, func(host int) uint64 { return x.ids[host] }
	faults := sim.Faults{}
	if rng.IntN(3) == 0 {
		faults = sim.Faults{Loss: 0.01, Duplicate: 0.02, Reorder: 0.03, DelayMax: 5 * time.Millisecond}
	}
	x.f = sim.New(simulated.Hooked(sim.Config{
		Seed: seed, NICs: intruderHosts, Faults: faults, UnreachableAfter: intruderUnreachable, Replay: replay(seed, d),
	}, simulated.Hooks{
		Defect: d, Sealed: true, IDs: x.ids, Peers: x.members.know, Security: x.members.security,
		Trust:  x.members.trusts,
		Policy: x.members.policy, Check: x.watch.check, Tap: x.tap, MaxEvents: maxEvents, RelaySaves: -1,
		Refused: func(any, error) {},
	}))
	return x
}

func (x *intruder) violate(format string, args ...any) {
	at := time.Duration(0)
	if x.f != nil {
		at = x.f.Elapsed()
	}
	if len(x.found) < 20 { // one broken promise often breaks others
		x.found = append(x.found, fmt.Sprintf("intruder, at %v: ", at)+fmt.Sprintf(format, args...))
	}
}

// step makes one attack and schedules the next, as long as honest processes work.
func (x *intruder) step(n int) {
	if n >= intruderSteps || x.honest.over {
		return
	}
	x.f.After(time.Duration(x.rng.ExpFloat64()*float64(intruderEvery)), func() {
		if !x.honest.working() { // names are spreading, or a NIC restarts
			n-- // this step does not count
			if x.rng.IntN(8) > 0 {
				x.step(n + 1)
				return
			}
		}
		x.attack()
		x.step(n + 1)
	})
}

// attack makes one attack.
func (x *intruder) attack() {
	switch k := x.rng.IntN(20); {
	case k < 6:
		x.repeat()
	case k < 9:
		x.forge()
	case k < 12:
		x.downgrade()
	case k < 15:
		x.strangerHello()
	case k == 15:
		x.thief.hello()
	case k == 16:
		x.deafen()
	default:
		x.tamper()
	}
}
