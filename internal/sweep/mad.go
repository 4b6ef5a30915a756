package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/sim"
)

// asylum is a small fabric in addition to the fabric of a run. One of its NICs has gone bad: in
// its open sessions, it sends records that are in order and tagged, but make no sense. It has its
// own promises:
//
//	no NIC panics, and each keeps its limits: no credit exceeds what was granted
//	the other processes exchange their messages, each once, in order and intact, and no send fails
//	a name keeps its owner, and a name that two processes claim at once gets one of them as owner
//	a group without processes of the bad NIC works
type asylum struct {
	f      *sim.Fabric
	rng    *rand.Rand
	slots  [asylumSane]weft.Address // addresses of the sane processes
	keys   [asylumSane]nonsenseRegion
	begun  int
	done   int // functions that talk and listen, and have ended
	looked int // sane processes that have found all names right
	polls  int
	found  []string
	spoken uint64 // records sent
	heard  []overheard

	frames   []kept            // frames of the bad NIC's first sessions (relapse.go)
	relapsed bool              // it has other sessions now
	present  [asylumMad]uint32 // its present sessions
	round    int               // round of the group
	owners   int               // owners of the last claimed name
	claimed  int               // names that were claimed
}

// nonsenseRegion holds a region's number and key from a handle. The bad NIC has been given the
// handle.
type nonsenseRegion struct {
	region uint32
	key    uint64
}

const (
	asylumSane     = 4  // processes, two on each of two NICs
	asylumMad      = 2  // the bad NIC, which is the third
	asylumMessages = 30 // from each process to each other
	asylumRecords  = 600
	// Functions that talk, listen, gather and claim.
	asylumTasks = 2*asylumSane*(asylumSane-1) + asylumSane + 1
)

// runAsylum runs the fabric of a seed, and returns the violations and the number of nonsense
// records.
func runAsylum(seed uint64, d mutate.Defect) (violations []string, records uint64) {
	a := &asylum{rng: rand.New(rand.NewPCG(seed, 0x617379))}
	a.f = sim.New(simulated.Hooked(sim.Config{Seed: seed, NICs: 3, Replay: replay(seed, d),
		UnreachableAfter: asylumUnreachable},
		simulated.Hooks{Defect: d, Check: a.check, Tap: a.tap, Refused: func(any, error) {}, MaxEvents: maxEvents,
			RelaySaves: -1}))
	for i := range asylumSane {
		a.f.Process(i%2, saneName(i).String(), func(p *sim.Process) error { return a.sane(p, i) })
	}
	a.f.Process(asylumMad, "mad/0", a.mad)
	if err := a.f.Run(time.Minute); err != nil {
		a.violate("%v", err)
	} else if a.stale() == 0 || a.claimed == 0 {
		a.violate("%d frames of earlier sessions were refused, and %d names claimed", a.stale(), a.claimed)
	}
	return a.found, a.spoken
}

func saneName(i int) weft.Name { return weft.Name{App: "sane", Index: uint32(i)} }

func (a *asylum) violate(format string, args ...any) {
	a.found = append(a.found, fmt.Sprintf("asylum, at %v: ", a.f.Elapsed())+fmt.Sprintf(format, args...))
}

// check audits the sane NICs from time to time.
func (a *asylum) check(e *nic.Engine) error {
	if a.polls++; a.polls%4 != 0 || e.ID() == nicID(asylumMad) {
		return nil
	}
	return e.Limits()
}

// sane is the main function of a process that follows the rules.
func (a *asylum) sane(p *sim.Process, i int) error {
	ctx := context.Background()
	a.slots[i] = p.Address()
	r, err := simulated.Half(p).Alloc(4096)
	if err != nil {
		return err
	}
	a.keys[i] = nonsenseRegion{r.Handle().Region, r.Handle().Key}
	for k := range asylumSane {
		if _, err := p.WaitName(ctx, saneName(k)); err != nil {
			return err
		}
	}
	g, err := p.Join(ctx, "sound", asylumSane)
	if err != nil {
		return err
	}
	a.begun++
	p.Start("gathers", func(p *sim.Process) error { return a.gather(p, g, i) })
	if i == 0 {
		p.Start("claims", a.claims)
	}
	p.Start("to the mad one", func(p *sim.Process) error { return a.humour(p) })
	for k := range asylumSane {
		if k != i {
			p.Start(fmt.Sprintf("to %d", k), func(p *sim.Process) error { return a.talk(p, i, k) })
			p.Start(fmt.Sprintf("from %d", k), func(p *sim.Process) error { return a.listen(p, k, i) })
		}
	}
	for a.done < asylumTasks {
		p.Runtime().Sleep(context.Background(), 10*time.Millisecond)
	}
	if now := a.sessions(); now != a.present {
		a.violate("frames of earlier sessions have ended the present ones: %x, and now %x", a.present, now)
	}
	for host := range asylumMad {
		for k := range asylumSane {
			if at, ok := simulated.Engine(a.f, host).Lookup(nameOf(saneName(k).String())); !ok ||
				at.NIC != uint64(a.slots[k].NIC) || at.Slot != a.slots[k].Slot {
				a.violate("NIC %d believes that %v is at %v, and it is at %v", host, saneName(k), at, a.slots[k])
			}
		}
	}
	for a.looked++; a.looked < asylumSane; { // as long as they have their names
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	return nil
}

// saneMessage returns message n from one process to another. Some messages go whole, some in
// pieces, and some by permission.
func saneMessage(from, to, n int) []byte {
	size := []int{40, 300, 1500, 6000, 30_000}[n%5] + n
	return cut(uint64(from)<<40|uint64(to)<<20|uint64(n)+1, 0, size)
}

func (a *asylum) talk(p *sim.Process, i, k int) error {
	for n := range asylumMessages {
		if n == asylumMessages/2 {
			a.awaitRelapse(p)
		}
		to := p.Peer(saneName(k))
		send := to.Send
		if n%3 == 0 {
			send = to.SendDelivered
		}
		if err := send(context.Background(), weft.Tag(7), saneMessage(i, k, n)); err != nil {
			a.violate("message %d from %v to %v: %v", n, saneName(i), saneName(k), err)
		}
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().ExpFloat64()*float64(200*time.Microsecond)))
	}
	a.done++
	return nil
}

func (a *asylum) listen(p *sim.Process, k, i int) error {
	buf := make([]byte, 40_000)
	for n := range asylumMessages {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 30*time.Second)
		m, err := p.Recv(ctx, saneName(k), weft.Tag(7), buf)
		cancel()
		if err != nil {
			a.violate("message %d from %v to %v does not come: %v", n, saneName(k), saneName(i), err)
			break
		}
		if !bytes.Equal(buf[:m.Len], saneMessage(k, i, n)) {
			a.violate("message %d from %v to %v came as %d other bytes", n, saneName(k), saneName(i), m.Len)
		}
	}
	a.done++
	return nil
}

// humour exchanges messages with the process of the bad NIC, so that the bad NIC has something to
// send. Any outcome is permitted.
func (a *asylum) humour(p *sim.Process) error {
	mad := weft.Name{App: "mad"}
	for n := 0; a.done < asylumTasks; n++ {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 5*time.Millisecond)
		if n%4 == 0 {
			if m, err := p.Recv(ctx, mad, weft.Tag(9), make([]byte, 5000)); err != nil && m.Len == 0 &&
				errors.Is(err, weft.ErrNICGone) {
				cancel()
				return err
			}
		} else if err := p.Send(ctx, mad, 1, saneMessage(9, 9, n)); errors.Is(err, weft.ErrNICGone) {
			cancel()
			return err
		}
		cancel()
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	return nil
}

// hear receives messages of the sane processes. Their tokens reveal the tokens of other sends.
func (a *asylum) hear(p *sim.Process) error {
	for buf := make([]byte, 40_000); a.looked < asylumSane; {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 10*time.Millisecond)
		m, err := simulated.Half(p).Recv(ctx, proc.Dest{}, proc.Tagged(1), buf)
		cancel()
		if err == nil && m.Token != 0 {
			a.heard = append(a.heard, overheard{weft.Address{NIC: weft.NICID(m.NIC), Slot: m.Slot, Generation: m.Gen},
				uint32(m.Token) >> 16})
		}
	}
	return nil
}

// overheard is the number of times that a process had used one of its send contexts.
type overheard struct {
	who  weft.Address
	uses uint32
}

// mad sends nonsense.
func (a *asylum) mad(p *sim.Process) error {
	for a.begun < asylumSane {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	own := p.Address()
	p.Start("hears", a.hear)
	for n := range asylumRecords / 8 {
		if n == asylumRecords/16 {
			a.relapse(p)
		}
		if a.relapsed {
			a.repeat()
		}
		for range 8 {
			for _, r := range a.nonsense(own) {
				if to := a.rng.IntN(asylumMad); wire.CheckRecords(r) == nil &&
					simulated.Engine(a.f, asylumMad).Utter(nicID(to), r) {
					a.spoken++
				}
			}
		}
		simulated.Ring(p)
		p.Runtime().Sleep(context.Background(), time.Duration(a.rng.ExpFloat64()*float64(100*time.Microsecond)))
	}
	return nil
}
