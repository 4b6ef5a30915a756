package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Every frame leaves by two functions. frame reserves its room; seal counts it, writes its outer
// header and makes its tag:
//
//	frame ─► the caller writes behind the outer header ─► seal: counter, outer header,
//	                                                      payload, tag ─► Commit
//
// Module.open checks the tag of every arriving frame, before anything inside is believed.

// packets holds the state of the frames of a session, or of the Hellos of a NIC.
type packets struct {
	index   uint32 // of the session at the receiver; 0 for Hellos
	flags   uint8  // of the outer header of outgoing frames
	expects uint8  // flags of incoming frames, without phase and clear headers of sealed ones
	tag     uint8  // bytes that the guard adds behind the body
	again   bool   // the next frame repeats the last counter: only with mutate.CounterReused
	anew    bool   // the next frame gets the first counter: only with mutate.CounterRestarts
	// Packet counter of the last frame sent, the nonce of the AEAD: no value is used twice.
	counter uint64
	out     Traffic // the frames that were completed
	guard   guard
	cookies cookieTag
}

// guard protects the frames of a session.
type guard interface {
	// seal completes a frame whose outer header has the counter. b[:n] is written; from follows,
	// and then the tag. The first clear bytes stay readable. It returns the length of the frame.
	// Its computations on from share the pass that copies it.
	seal(b []byte, clear, n int, from []byte, counter uint64) int

	// open returns the body of a frame if it is the peer's, and nil if not. If the body is the
	// next of r, which may be nil, its payload goes to its place in the same pass, and r.placed
	// is true. now may be a little late.
	open(now clock.Time, o wire.Outer, frame []byte, r *row) (body []byte)

	// peek is open for a frame that the link still holds, and that stays unchanged.
	peek(o wire.Outer, frame []byte) (body []byte)
}

// start prepares frames that arrive with our cookie in their tags. Until aim is called, none
// leave.
func (p *packets) start(m *Module, cookie uint64) {
	*p = packets{guard: &m.bare, cookies: cookieTag{ours: cookie}}
	switch {
	case m.security != nil && m.cfg.Tagged:
		p.guard, p.flags, p.expects, p.tag = shut{}, wire.FlagSealed, wire.FlagSealed, wire.TagLen
	case m.security != nil:
		p.guard = shut{}
	case m.cfg.Tagged:
		p.guard, p.flags, p.expects, p.tag = &p.cookies, wire.FlagTagged, wire.FlagTagged, wire.TagLen
	}
}

// aim directs frames to a session of a peer that expects its cookie in them.
func (p *packets) aim(index uint32, cookie uint64) { p.index, p.cookies.theirs = index, cookie }

// tagLen returns how many bytes of a frame are its tag.
func (p *packets) tagLen() int { return int(p.tag) }

// next counts a frame and returns its outer header. No other function advances a packet counter.
func (p *packets) next(k wire.Kind) wire.Outer {
	switch {
	case p.again:
		p.again = false
	case p.anew:
		p.anew, p.counter = false, 1
	default:
		p.counter++
	}
	return wire.Outer{Kind: k, Flags: p.flags, Index: p.index, Counter: p.counter}
}

// frame returns room for one frame, which the caller writes from behind the outer header on; nil
// if the driver takes none.
func frame(out Frames, to netip.AddrPort) []byte { return out.Reserve(to) }

// form is the protection of a frame.
type form uint8

const (
	whole     form = iota // by the session's guard
	headClear             // on a sealed link, the headers of a Chunk stay readable: see sealPiece
	unsealed              // by checksum and cookie alone, also on a sealed link: see resident.go
)

// seal completes the frame in b and returns its length. Its contents are b[wire.OuterLen:n], and
// then from.
func (p *packets) seal(k wire.Kind, b []byte, n int, from []byte) int {
	return p.sealAs(k, whole, b, n, from)
}

// sealPiece is seal for a data frame with a piece of a fragment. If its one record is a Chunk,
// the headers stay readable on a sealed link, so that the receiver can decrypt the payload to
// its place.
func (p *packets) sealPiece(b []byte, n int, from []byte, chunk bool) int {
	if chunk && n >= wire.ClearLen && p.flags&wire.FlagSealed != 0 {
		return p.sealAs(wire.KindData, headClear, b, n, from)
	}
	return p.sealAs(wire.KindData, whole, b, n, from)
}

func (p *packets) sealAs(k wire.Kind, f form, b []byte, n int, from []byte) int {
	o, g, clear := p.next(k), p.guard, wire.OuterLen
	switch f {
	case headClear:
		o.Flags |= wire.FlagClear
		clear = wire.ClearLen
	case unsealed:
		o.Flags, g = wire.FlagTagged, &p.cookies
	}
	o.Put(b)
	n = g.seal(b, clear, n, from, o.Counter)
	p.out.count(n)
	return n
}

// open checks a frame of p and returns its body; nil if the frame is not the peer's. On a
// Checked link there is nothing to check.
func (m *Module) open(now clock.Time, p *packets, o wire.Outer, frame []byte, r *row) (body []byte) {
	g := p.guard
	switch {
	case p.tag == 0:
		return frame[wire.OuterLen:]
	case o.Flags&wire.FlagSealed == 0:
		g = &p.cookies
	}
	if body = g.open(now, o, frame, r); body == nil && m.cfg.Defect != mutate.None {
		return m.opensAnyway(frame, r)
	}
	return body
}

// opensAnyway is the effect of three defects: it takes a frame whose tag does not fit.
func (m *Module) opensAnyway(frame []byte, r *row) []byte {
	if len(frame) < wire.OuterLen+wire.TagLen {
		return nil
	}
	body := frame[wire.OuterLen : len(frame)-wire.TagLen]
	switch m.cfg.Defect {
	case mutate.TagIgnored:
		return body
	case mutate.PlacedUnseen:
		if to := r.place(body); to != nil {
			r.placed = true
			copy(to, body[wire.InnerLen+wire.ChunkLen:])
			return body
		}
	case mutate.SingleUnseen:
		if len(body) > wire.InnerLen && wire.LoneFrag(body[wire.InnerLen:]) {
			return body
		}
	}
	return nil
}

// cookieTag guards by a checksum against damage and by a cookie against frames of an earlier
// session. It is no cryptography.
type cookieTag struct{ ours, theirs uint64 }

func (t *cookieTag) seal(b []byte, _, n int, from []byte, _ uint64) int {
	sum := wire.Sum(b[:n])
	if len(from) > 0 {
		sum = wire.SumCopy(b[n:n+len(from)], from, sum)
	}
	return wire.SealSum(b, n+len(from), t.theirs, sum)
}

func (t *cookieTag) open(_ clock.Time, _ wire.Outer, frame []byte, r *row) []byte {
	n := len(frame) - wire.TagLen
	if n < wire.OuterLen {
		return nil
	}
	body := frame[wire.OuterLen:n]
	if to := r.place(body); to != nil {
		// If the tag turns out bad the bytes written are garbage, which is safe: the receiver
		// has not been told of them.
		if r.placed = wire.OpenInto(to, frame, t.ours); !r.placed {
			return nil
		}
		return body
	}
	if _, err := wire.Open(frame, t.ours); err != nil {
		return nil
	}
	return body
}

func (t *cookieTag) peek(_ wire.Outer, frame []byte) []byte {
	n, err := wire.Open(frame, t.ours)
	if err != nil {
		return nil
	}
	return frame[wire.OuterLen:n]
}

// bare is the guard of a Checked link, whose frames have no tags.
type bare struct{ copies func(to, from []byte) }

func (g *bare) seal(b []byte, _, n int, from []byte, _ uint64) int {
	if len(from) > 0 {
		g.copies(b[n:n+len(from)], from)
	}
	return n + len(from)
}

func (g *bare) open(clock.Time, wire.Outer, []byte, *row) []byte {
	panic("rel: a frame without a tag has nothing to be checked by")
}

func (g *bare) peek(_ wire.Outer, frame []byte) []byte { return frame[wire.OuterLen:] }

// shut is the guard of a session whose handshake is not finished: no frame passes.
type shut struct{}

func (shut) seal([]byte, int, int, []byte, uint64) int {
	panic("rel: a frame leaves a session whose handshake is not over")
}

func (shut) open(clock.Time, wire.Outer, []byte, *row) []byte { return nil }
func (shut) peek(wire.Outer, []byte) []byte                   { return nil }
