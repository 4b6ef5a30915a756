package sweep

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// This file holds the attacks on passing frames: attackers record, replay, alter and lose them.

// tape holds recorded frames of honest NICs and of the member.
type tape struct {
	frames     []taped // of sessions: one frame in tapeEvery
	handshakes []taped
	passed     int
	sessions   map[[2]int]uint32 // the last session index by the direction of its frames
}

type taped struct {
	from, to int
	outer    wire.Outer
	frame    []byte
}

const (
	tapeEvery      = 4
	tapeFrames     = 1500
	tapeHandshakes = 60

	windowInside = 1984 // counters that a replay window certainly covers (internal/rel/replay.go)
	windowBehind = 2112 // counters that it cannot cover
)

// record may keep a frame.
func (t *tape) record(from, to int, o wire.Outer, frame []byte) {
	if t.passed++; o.Kind.OfHandshake() || o.Kind == wire.KindRekey {
		if len(t.handshakes) < tapeHandshakes {
			t.handshakes = append(t.handshakes, taped{from, to, o, slices.Clone(frame)})
		}
		return
	}
	if t.sessions == nil {
		t.sessions = map[[2]int]uint32{}
	}
	t.sessions[[2]int{from, to}] = o.Index
	if t.passed%tapeEvery == 0 && len(t.frames) < tapeFrames {
		t.frames = append(t.frames, taped{from, to, o, slices.Clone(frame)})
	}
}

// any draws a recorded frame. ok is false if there is no frame to an honest NIC.
func (t *tape) any(rng *rand.Rand) (k taped, ok bool) {
	list := t.frames
	if len(list) == 0 || rng.IntN(6) == 0 {
		list = t.handshakes
	}
	for range 8 {
		if len(list) == 0 {
			break
		}
		if k = list[rng.IntN(len(list))]; k.to < intruderHonest {
			return k, true
		}
	}
	return k, false
}

// tap sees every frame of the fabric when it leaves.
func (x *intruder) tap(from, to int, frame []byte) {
	if from < intruderHonest {
		x.watch.leaves(from, to, frame)
		x.thief.hears(from, to, frame)
	}
	o, _, err := wire.ParseOuter(frame)
	if err != nil || from > hostMember || to > hostMember {
		return
	}
	x.tape.record(from, to, o, frame)
	if from >= intruderHonest || to >= intruderHonest {
		return
	}
	x.f.Narrow(from, to, 0)
	if x.loseOnPurpose(from, to, o) {
		x.f.Narrow(from, to, 1)
	}
	if o.Kind.OfHandshake() {
		x.thief.overhears(from, to, o, frame)
	}
	if x.honest.over {
		return
	}
	switch x.rng.IntN(40) {
	case 0: // the altered frame arrives first
		x.alter(taped{from, to, o, slices.Clone(frame)})
	case 1: // may arrive before the genuine frame
		x.attacks.Elsewhere++
		x.inject(pick(x.rng, hostBystander, hostThief), to, frame)
	}
}

// lostFrame is a kind of frame from one NIC to another that attackers lost.
type lostFrame struct {
	from, to int
	kind     wire.Kind
}

const mostLost = 3 // per kind, so that a handshake succeeds in the end

// loseOnPurpose decides whether a frame is lost.
func (x *intruder) loseOnPurpose(from, to int, o wire.Outer) bool {
	if x.f.Elapsed() < x.deaf[from][to] {
		return true
	}
	k := lostFrame{from, to, o.Kind}
	if !x.loses || !o.Kind.OfHandshake() && o.Kind != wire.KindRekey || x.lost[k] == mostLost || x.rng.IntN(5) > 1 {
		return false
	}
	x.lost[k]++
	x.attacks.Withheld++
	return true
}

// deafen makes one honest NIC deaf to another for some phases of keys.
func (x *intruder) deafen() {
	now := x.f.Elapsed()
	if now < x.deafAt || x.f.Counts().Lost > 0 {
		return
	}
	from := x.rng.IntN(intruderHonest)
	to := (from + 1 + x.rng.IntN(intruderHonest-1)) % intruderHonest
	x.deaf[from][to] = now + 4*intruderPace.Phase.Time + time.Duration(x.rng.IntN(8))*time.Millisecond
	x.deafAt = x.deaf[from][to] + intruderUnreachable/2
	x.attacks.Deaf++
}

// repeat sends a recorded frame again.
func (x *intruder) repeat() {
	k, ok := x.tape.any(x.rng)
	if x.long && x.rng.IntN(2) == 0 {
		k, ok = x.atEdge(k, ok)
	}
	if !ok {
		return
	}
	x.count(&k)
	from := k.from
	if x.rng.IntN(6) == 0 {
		x.attacks.Elsewhere++
		from = pick(x.rng, hostThief, hostBystander)
	}
	x.inject(from, k.to, k.frame)
}

// age returns the number of counters since a frame left. ok is false if its session has ended.
func (x *intruder) age(k *taped) (age uint64, ok bool) {
	if x.tape.sessions[[2]int{k.from, k.to}] != k.outer.Index {
		return 0, false
	}
	return x.watch.counters[sentOn{k.from, k.to, k.outer.Index}] - k.outer.Counter, true
}

// atEdge looks for a frame that is about to leave the replay window, or has just left it.
func (x *intruder) atEdge(k taped, ok bool) (taped, bool) {
	begin := x.rng.IntN(len(x.tape.frames) + 1)
	for i := range x.tape.frames {
		f := x.tape.frames[(begin+i)%len(x.tape.frames)]
		if age, present := x.age(&f); f.from < intruderHonest && f.to < intruderHonest && present &&
			age > windowInside-20 && age < windowBehind+20 {
			return f, true
		}
	}
	return k, ok
}

// count counts a replay by its kind.
func (x *intruder) count(k *taped) {
	if k.outer.Kind.OfHandshake() {
		x.attacks.Replayed++
		return
	}
	switch age, present := x.age(k); {
	case !present:
		x.attacks.OldLives++
	case age >= windowBehind:
		x.attacks.Late++
	case age >= windowInside:
		x.attacks.Edge++
	case age >= 2*intruderPace.Phase.Frames:
		x.attacks.OldKeys++
	default:
		x.attacks.Replayed++
	}
}

// tamper alters a recorded frame and sends it.
func (x *intruder) tamper() {
	if k, ok := x.tape.any(x.rng); ok {
		k.frame = slices.Clone(k.frame)
		x.alter(k)
	}
}

// alter changes bits of one field of a frame that the attacker may change, and sends the frame.
// The field is the outer header, the clear part or handshake head after it, the ciphertext, or
// the tag or the MACs.
func (x *intruder) alter(k taped) {
	b := k.frame
	head := min(wire.ClearLen, len(b))
	tag := max(len(b)-wire.TagLen, wire.OuterLen)
	if k.outer.Kind.OfHandshake() {
		head, tag = min(wire.OuterLen+wire.HandshakeHead, len(b)), max(len(b)-2*wire.MACLen, wire.OuterLen)
	}
	fields := [][]byte{b[:wire.OuterLen], b[wire.OuterLen:head], b[min(head, tag):tag], b[tag:]}
	if x.rng.IntN(3) == 0 { // a counter that was never used
		k.outer.Counter += uint64(1 + x.rng.IntN(5000))
		k.outer.Put(b)
		fields = fields[1:]
	}
	f := fields[x.rng.IntN(len(fields))]
	if len(f) == 0 {
		f = b
	}
	f[x.rng.IntN(len(f))] ^= 1 << x.rng.IntN(8)
	if x.rng.IntN(8) == 0 && len(b) > 1 {
		b = b[:1+x.rng.IntN(len(b)-1)]
	}
	x.attacks.Flipped++
	x.inject(k.from, k.to, b)
}

// session draws an open direction between honest NICs. It returns the index and the last counter.
func (x *intruder) session() (from, to int, index uint32, counter uint64, ok bool) {
	from = x.rng.IntN(intruderHonest)
	to = (from + 1 + x.rng.IntN(intruderHonest-1)) % intruderHonest
	index, ok = x.tape.sessions[[2]int{from, to}]
	return from, to, index, x.watch.counters[sentOn{from, to, index}], ok
}
