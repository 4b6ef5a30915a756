package sweep

import (
	"context"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/sim"
)

// In addition to nonsense records, the bad NIC does the following. It is cut off during the run,
// so that its sessions end, and sends their frames again in the next sessions. It answers claims
// that other NICs are asked to confirm. It sends steps of a group to which its processes do not
// belong.

const (
	asylumUnreachable = 40 * time.Millisecond
	asylumKept        = 200 // frames of the first sessions
	asylumRounds      = 40  // rounds of the group
	asylumClaims      = 8
)

// kept is a frame of an earlier session.
type kept struct {
	to    int
	frame []byte
}

// tap keeps frames of the bad NIC's first sessions.
func (a *asylum) tap(from, to int, frame []byte) {
	if from == asylumMad && !a.relapsed && len(a.frames) < asylumKept {
		a.frames = append(a.frames, kept{to, slices.Clone(frame)})
	}
}

// relapse cuts the bad NIC off until its sessions are over, and then reconnects it.
func (a *asylum) relapse(p *sim.Process) {
	heal := a.f.Partition(asylumMad)
	before := a.sessions()
	p.Runtime().Sleep(context.Background(), 6*asylumUnreachable)
	heal()
	for range 20_000 {
		if now := a.sessions(); now[0] != before[0] && now[1] != before[1] && now[0] != 0 && now[1] != 0 {
			break
		}
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	a.relapsed, a.present = true, a.sessions()
}

// sessions returns the sessions of the sane NICs with the bad NIC.
func (a *asylum) sessions() (s [asylumMad]uint32) {
	for host := range s {
		s[host] = simulated.Engine(a.f, host).Session(nicID(asylumMad))
	}
	return s
}

// repeat sends some frames of the first sessions again.
func (a *asylum) repeat() {
	for range 4 {
		if len(a.frames) > 0 {
			k := pick(a.rng, a.frames...)
			simulated.Inject(a.f, asylumMad, k.to, k.frame)
		}
	}
}

// stale returns the number of frames without a session that the sane NICs have refused.
func (a *asylum) stale() (n uint64) {
	for host := range asylumMad {
		n += simulated.Engine(a.f, host).Transport().NoSession
	}
	return n
}

// claims makes two processes of sane NICs claim the same names, one name after another, while the
// bad NIC answers in place of their home.
func (a *asylum) claims(p *sim.Process) error {
	for n := range asylumClaims {
		name := weft.Name{App: "late", Index: uint32(n)}
		if home := simulated.Engine(a.f, 0).Home(nameOf(name.String())); home == nicID(asylumMad) {
			continue
		}
		a.owners, a.claimed = 0, a.claimed+1
		for host := range asylumMad {
			a.f.After(time.Duration(a.rng.IntN(20))*time.Microsecond, func() {
				a.f.Serve(host, name.String(), func(p *sim.Process) error {
					if a.owners++; a.owners > 1 {
						a.violate("%v has two owners", name)
					}
					p.Runtime().Sleep(context.Background(), 5*time.Millisecond)
					return nil
				})
			})
		}
		for at := time.Duration(0); at < 150*time.Microsecond; at += 5 * time.Microsecond {
			a.f.After(at, a.meddle)
		}
		p.Runtime().Sleep(context.Background(), 4*time.Millisecond)
		if a.owners == 0 {
			a.violate("%v is free, and both its claimants are refused", name)
		}
		p.Runtime().Sleep(context.Background(), 4*time.Millisecond)
	}
	a.done++
	return nil
}

// meddle answers the claims of the sane NICs' processes.
func (a *asylum) meddle() {
	for host := range asylumMad {
		for _, q := range simulated.Engine(a.f, host).Processes() {
			if q.Name.String()[:4] != "late" {
				continue
			}
			r := a.make(wire.RecordLen+24, func(b []byte) { // see internal/names/record.go
				wire.PutTable(b, 24)
				b = b[wire.RecordLen:]
				b[0], b[1] = 10, byte(a.rng.IntN(2))
				b[2], b[3] = byte(q.Slot), byte(q.Slot>>8)
				for i := range 4 {
					b[4+i] = byte(q.Generation >> (8 * i))
				}
				b[8], b[20] = byte(nicID(asylumMad)), 1
			})
			if simulated.Engine(a.f, asylumMad).Utter(nicID(host), r[0]) {
				a.spoken++
			}
		}
	}
	simulated.Turn(a.f, asylumMad)
}

// gather makes the sane processes work together in their own group.
func (a *asylum) gather(p *sim.Process, g *weft.Group, i int) error {
	for n := range asylumRounds {
		if n == asylumRounds/2 {
			a.awaitRelapse(p)
		}
		v := []int64{int64(i + n)}
		if err := weft.AllReduce(context.Background(), g, weft.Sum, v); err != nil ||
			v[0] != int64(asylumSane*n+asylumSane*(asylumSane-1)/2) {
			a.violate("round %d of %v: the sum is %d: %v", n, saneName(i), v[0], err)
			break
		}
		a.round = max(a.round, n)
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().ExpFloat64()*float64(100*time.Microsecond)))
	}
	a.done++
	return nil
}

// awaitRelapse waits until the bad NIC is back.
func (a *asylum) awaitRelapse(p *sim.Process) {
	for !a.relapsed {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
}

// meddles makes signals and pieces of operations of a group. Their numbers decrease, and exceed
// all existing numbers.
func (a *asylum) meddles() []wire.Record {
	h := wire.GroupHeader{Group: uint32(1 + a.rng.IntN(4)), Epoch: uint32(pick(a.rng, 0, 0, 0, 1)),
		Rank: uint32(pick(a.rng, 0, 1, 2, 3, 4, 1<<31)),
		Operation: pick(a.rng, 0, 1, uint32(a.round), uint32(a.round)+1, uint32(a.round)+2, uint32(a.round)-3, 1000,
			1<<31, 1<<32-1)}
	if a.rng.IntN(2) == 0 {
		s := wire.Signal{GroupHeader: h, What: uint8(1 + a.rng.IntN(9)), Round: uint8(a.rng.IntN(4)), Value: a.wild()}
		return a.make(wire.SignalLen, s.Put)
	}
	n := pick(a.rng, 8, 8, 100)
	q := wire.Piece{GroupHeader: h, Root: uint32(a.rng.IntN(asylumSane + 1)), Offset: uint32(pick(a.rng, 0, 0, 100)),
		Length: uint32(pick(a.rng, 8, 8, 200)),
		What:   uint8(1 + a.rng.IntN(3)), Operator: uint8(a.rng.IntN(10))}
	return a.make(wire.PieceLen+n, func(b []byte) { q.Put(b, n) })
}
