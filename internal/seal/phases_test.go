package seal_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

// direction is both halves of a direction, and a model that knows the number of each frame's
// phase.
type direction struct {
	t   *rapid.T
	now clock.Time
	out seal.Outgoing
	in  seal.Incoming

	counter uint64
	frames  []phasedFrame
	sending int // the sender's phase
	current int // the receiver's phase
	shown   bool
	flipped clock.Time // when the receiver's phase began
	secret  seal.Secret
	given   *seal.Secret // fresh secret that the receiver has, for a later phase
	told    bool         // the sender has it too, and is to use it for the next phase
	made    map[int]bool // by phase: whether it is made of a fresh secret
}

type phasedFrame struct {
	bytes   []byte
	counter uint64
	phase   int
}

func newDirection(t *rapid.T, suite seal.Suite, pace seal.Pace) *direction {
	d := &direction{t: t, now: 1, secret: seal.Secret{1, 2, 3}, made: map[int]bool{}}
	d.out.Start(d.now, pace, suite, d.secret)
	d.in.Start(suite, d.secret)
	return d
}

// send seals a frame of a random payload in the sender's phase.
func (d *direction) send() {
	d.counter++
	flags := wire.FlagSealed
	if d.out.Odd {
		flags |= wire.FlagPhase
	}
	payload := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(d.t, "payload")
	b := make([]byte, wire.OuterLen+len(payload)+wire.TagLen)
	wire.Outer{Kind: wire.KindData, Flags: flags, Index: 5, Counter: d.counter}.Put(b)
	copy(b[wire.OuterLen:], payload)
	d.out.Key.Seal(b, wire.OuterLen, wire.OuterLen+len(payload), nil, d.counter)
	if want := dumbSeal(nil, seal.AES, d.secret, append(b[:wire.OuterLen:wire.OuterLen], payload...), wire.OuterLen, d.counter); !bytes.Equal(b, want) {
		d.t.Fatalf("a frame of phase %d is sealed\n%x, the model\n%x", d.sending, b, want)
	}
	d.frames = append(d.frames, phasedFrame{b, d.counter, d.sending})
}

// opens returns the model's answer: the phase before lives 3 s, and the next one may begin.
func (d *direction) opens(f phasedFrame) bool {
	switch f.phase - d.current {
	case 0, 1:
		return true
	case -1:
		return d.now.Sub(d.flipped) < 3*time.Second
	}
	return false
}

// take does what the receiver of a frame does. It returns the result, and the frame afterwards.
func (d *direction) take(b []byte, counter uint64) (opened seal.Opened, current, ok bool, after []byte) {
	b = bytes.Clone(b)
	if odd := b[1]&wire.FlagPhase != 0; odd != d.in.Odd {
		opened = d.in.OpenOther(d.now, b, make([]byte, len(b)), wire.OuterLen, counter)
		return opened, false, opened != seal.OpenedNot, b
	}
	ok = d.in.Key.Open(b[wire.OuterLen:len(b)-wire.TagLen], b, wire.OuterLen, counter)
	if ok {
		d.in.Current(counter)
	}
	return seal.OpenedNot, true, ok, b
}

// deliver passes a frame to the receiver, first with a forged phase bit.
func (d *direction) deliver(f phasedFrame) {
	odd := d.in.Odd
	forged := bytes.Clone(f.bytes)
	forged[1] ^= wire.FlagPhase
	if _, current, ok, after := d.take(forged, f.counter); ok || d.in.Odd != odd {
		d.t.Fatalf("a frame of phase %d opens with a forged phase bit", f.phase)
	} else if !current && !bytes.Equal(after, forged) {
		d.t.Fatal("a frame that does not open in another phase is altered")
	}
	want := d.opens(f)
	opened, _, ok, _ := d.take(f.bytes, f.counter)
	if ok != want {
		d.t.Fatalf("a frame of phase %d, in phase %d for %v, opens: %v; the model says %v", f.phase, d.current, d.now.Sub(d.flipped), ok, want)
	}
	expected := seal.OpenedNot
	switch {
	case !ok || f.phase == d.current:
	case f.phase < d.current:
		expected = seal.OpenedOld
	case d.made[f.phase]:
		expected = seal.OpenedFresh
		d.given = nil
	default:
		expected = seal.OpenedNext
	}
	if opened != expected {
		d.t.Fatalf("a frame of phase %d, in phase %d: found %d; expected %d", f.phase, d.current, opened, expected)
	}
	if ok && f.phase > d.current {
		d.current, d.flipped = f.phase, d.now
	}
	d.shown = d.shown || ok && f.phase == d.sending
	if d.in.Odd != (d.current%2 == 1) || d.in.Pending() != (d.given != nil) {
		d.t.Fatalf("phase %d: odd is %v, pending %v", d.current, d.in.Odd, d.in.Pending())
	}
}

// flip moves the sender to the next phase, once the receiver has shown that it has this one.
func (d *direction) flip() {
	if !d.shown {
		return
	}
	fresh := d.told
	if fresh {
		d.secret, d.told = dumbMix(d.secret, *d.given, "weft fresh"), false
	} else {
		copy(d.secret[:], dumbExpand(d.secret[:], "weft next", 32))
	}
	d.out.Flip(d.now, d.counter+1)
	d.sending++
	d.shown, d.made[d.sending] = false, fresh
	if d.out.First != d.counter+1 || d.out.Since != d.now || d.out.Odd != (d.sending%2 == 1) {
		d.t.Fatalf("phase %d begins with counter %d at %v", d.sending, d.out.First, d.out.Since)
	}
}

func TestTheModelSaysWhichFramesOpen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDirection(t, seal.AES, seal.Pace{}.OrDefault())
		t.Repeat(map[string]func(*rapid.T){
			"send": func(*rapid.T) { d.send() },
			"newest": func(*rapid.T) {
				if n := len(d.frames); n > 0 {
					d.deliver(d.frames[n-1])
				}
			},
			"any": func(t *rapid.T) {
				if n := len(d.frames); n > 0 {
					d.deliver(d.frames[rapid.IntRange(max(0, n-12), n-1).Draw(t, "frame")])
				}
			},
			"flip": func(*rapid.T) { d.flip() },
			"time": func(t *rapid.T) {
				d.now = d.now.Add(rapid.SampledFrom([]time.Duration{1, time.Second, 3*time.Second - 1, 3 * time.Second}).Draw(t, "time"))
			},
			"offer fresh keys": func(t *rapid.T) {
				if d.given == nil && !d.told {
					s := drawSecret(t, "fresh")
					d.given = &s
					d.in.Renew(s)
				}
			},
			"sender has fresh keys": func(*rapid.T) {
				if d.given != nil && !d.told && !d.made[d.sending] {
					d.told = true
					d.out.Renew(*d.given)
				}
			},
		})
	})
}

func TestAPhaseIsOverByFramesTimeOrFreshKeys(t *testing.T) {
	pace := seal.Pace{Frames: 10, Time: time.Minute}
	var o seal.Outgoing
	start := clock.Time(time.Hour)
	o.Start(start, pace, seal.AES, seal.Secret{1})
	for _, c := range []struct {
		after   time.Duration
		counter uint64
		due     bool
	}{{0, 0, false}, {0, 9, false}, {0, 10, true}, {time.Minute - 1, 0, false}, {time.Minute, 0, true}} {
		if got := o.Due(start.Add(c.after), c.counter); got != c.due {
			t.Errorf("after %v and %d frames the phase is over: %v", c.after, c.counter, got)
		}
	}
	o.Flip(start, 11)
	if o.Due(start, 19) || !o.Due(start, 20) {
		t.Error("the second phase does not have its own frames")
	}
	o.Renew(seal.Secret{2})
	if !o.Due(start, 11) {
		t.Error("fresh keys wait")
	}
	if p := (seal.Pace{}).OrDefault(); p != (seal.Pace{Frames: 1 << 26, Time: 120 * time.Second}) {
		t.Errorf("the default is %v", p)
	}
}

func TestARatchetedKeyOpensNoFrameOfAFreshPhase(t *testing.T) {
	s, fresh := seal.Secret{1}, seal.Secret{2}
	var in seal.Incoming
	in.Start(seal.AES, s)
	ofFresh := s.Fresh(&fresh)
	frame := make([]byte, 100)
	wire.Outer{Kind: wire.KindAck, Flags: wire.FlagSealed | wire.FlagPhase, Index: 1, Counter: 9}.Put(frame)
	n := seal.NewKey(seal.AES, &ofFresh).Seal(frame, wire.OuterLen, 40, nil, 9)
	try := func() seal.Opened {
		return in.OpenOther(1, bytes.Clone(frame[:n]), make([]byte, n), wire.OuterLen, 9)
	}
	if got := try(); got != seal.OpenedNot {
		t.Errorf("without the fresh secret: %d", got)
	}
	in.Renew(seal.Secret{3})
	if got := try(); got != seal.OpenedNot {
		t.Errorf("with another fresh secret: %d", got)
	}
	in.Renew(fresh)
	if got := try(); got != seal.OpenedFresh || in.Pending() {
		t.Errorf("with the fresh secret: %d, pending %v", got, in.Pending())
	}
}
