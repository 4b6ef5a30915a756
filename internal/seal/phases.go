package seal

import (
	"cmp"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// Each direction of a session goes from phase to phase, each with its own key. The phase bit of a
// frame says whether its phase is odd:
//
//	sender    phase 0 ── frame acknowledged, 2^26 frames or 120 s ─► phase 1 ─►
//	receiver  phase 0 ── a frame with the other bit that opens ────► phase 1, phase 0 for 3 s more
//
// The sender never goes on before the receiver has shown that it has the current phase. So the
// receiver needs to look only one phase ahead.

// Pace is the length of a phase: until either limit is reached. Tests use shorter phases.
type Pace struct {
	Frames uint64        // 0 = PhaseFrames
	Time   time.Duration // 0 = PhaseTime
}

// OrDefault returns p with the defaults in place of zeros.
func (p Pace) OrDefault() Pace {
	return Pace{cmp.Or(p.Frames, PhaseFrames), cmp.Or(p.Time, PhaseTime)}
}

// Limits of a phase.
const (
	PhaseFrames = 1 << 26
	PhaseTime   = 120 * time.Second
	OldKeyTime  = 3 * time.Second // for frames that were overtaken by the first of the next phase
)

// Outgoing is the sending half of a direction.
type Outgoing struct {
	pace   Pace
	suite  Suite
	secret Secret
	fresh  *Secret // of a handshake that the receiver has too; the next phase is made of it
	Key    *Key
	Odd    bool       // the phase bit
	First  uint64     // packet counter of the first frame of this phase
	Since  clock.Time // when the phase began
	phase  uint64     // its number
}

// Start begins with phase 0.
func (o *Outgoing) Start(now clock.Time, p Pace, suite Suite, s Secret) {
	*o = Outgoing{pace: p, suite: suite, secret: s, Key: NewKey(suite, &s), First: 1, Since: now}
}

// Due reports whether the phase has lasted long enough, with counter the last packet counter used.
func (o *Outgoing) Due(now clock.Time, counter uint64) bool {
	return o.fresh != nil || counter+1-o.First >= o.pace.Frames || now.Sub(o.Since) >= o.pace.Time
}

// Renew makes the next phase depend on a fresh secret, which the receiver has.
func (o *Outgoing) Renew(fresh Secret) { o.fresh = &fresh }

// Flip goes on to the next phase, whose first frame will have the counter first. The receiver
// must be known to have the current phase.
func (o *Outgoing) Flip(now clock.Time, first uint64) {
	if o.fresh != nil {
		o.secret = o.secret.Fresh(o.fresh)
	} else {
		o.secret = o.secret.Next()
	}
	o.fresh = nil
	o.Key, o.Odd, o.First, o.Since = NewKey(o.suite, &o.secret), !o.Odd, first, now
	o.phase++
}

// Incoming is the receiving half of a direction.
type Incoming struct {
	suite  Suite
	secret Secret
	// fresh is of a handshake that the sender may have finished: the next phase may be made of
	// it.
	fresh *Secret

	Key   *Key
	Odd   bool
	first uint64 // lowest packet counter seen in this phase
	phase uint64 // its number

	next, nextFresh *Key // made when they are first needed
	old             *Key // of the phase before
	oldUntil        clock.Time
}

// Start begins with phase 0.
func (in *Incoming) Start(suite Suite, s Secret) {
	*in = Incoming{suite: suite, secret: s, Key: NewKey(suite, &s), first: 1}
}

// Renew makes it possible that the next phase depends on a fresh secret.
func (in *Incoming) Renew(fresh Secret) { in.fresh, in.nextFresh = &fresh, nil }

// Pending reports whether a fresh secret waits for its phase.
func (in *Incoming) Pending() bool { return in.fresh != nil }

// Opened is the result of OpenOther.
type Opened uint8

// Results of OpenOther.
const (
	OpenedNot   Opened = iota
	OpenedOld          // a frame of the phase before
	OpenedNext         // the first frame of the next phase, which is now the current one
	OpenedFresh        // like OpenedNext, and the phase is made of the fresh secret
)

// OpenOther opens a frame whose phase bit differs from that of the current phase. If its counter
// is lower than any of this phase and old keys still live, it tries the phase before, else the
// next one. It works on a copy of the frame in scratch, since a key that does not fit leaves
// zeros. If the frame opens, its plaintext is in the frame.
func (in *Incoming) OpenOther(now clock.Time, frame, scratch []byte, clear int, counter uint64) Opened {
	if in.old != nil && now >= in.oldUntil {
		in.old = nil
	}
	if counter < in.first {
		if in.old != nil && try(in.old, frame, scratch, clear, counter) {
			return OpenedOld
		}
		return OpenedNot
	}
	if in.next == nil {
		s := in.secret.Next()
		in.next = NewKey(in.suite, &s)
	}
	if try(in.next, frame, scratch, clear, counter) {
		in.flip(now, in.next, in.secret.Next(), counter)
		return OpenedNext
	}
	if in.fresh == nil {
		return OpenedNot
	}
	s := in.secret.Fresh(in.fresh)
	if in.nextFresh == nil {
		in.nextFresh = NewKey(in.suite, &s)
	}
	if !try(in.nextFresh, frame, scratch, clear, counter) {
		return OpenedNot
	}
	in.fresh = nil
	in.flip(now, in.nextFresh, s, counter)
	return OpenedFresh
}

// try opens a frame with a key. If the key does not fit, the frame is unchanged.
func try(k *Key, frame, scratch []byte, clear int, counter uint64) bool {
	n := copy(scratch, frame)
	if !k.Open(scratch[clear:n-wire.TagLen], scratch[:n], clear, counter) {
		return false
	}
	copy(frame[clear:], scratch[clear:n-wire.TagLen])
	return true
}

// flip makes a phase the current one.
func (in *Incoming) flip(now clock.Time, k *Key, s Secret, counter uint64) {
	in.old, in.oldUntil = in.Key, now.Add(OldKeyTime)
	in.Key, in.secret, in.Odd, in.first = k, s, !in.Odd, counter
	in.next, in.nextFresh = nil, nil
	in.phase++
}

// Current notes a good frame of the current phase.
func (in *Incoming) Current(counter uint64) { in.first = min(in.first, counter) }
