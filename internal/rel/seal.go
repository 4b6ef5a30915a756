package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// Every frame leaves by two functions. frame reserves its room; seal counts it, writes its outer header and makes its tag:
//
//	frame ─► the caller writes behind the outer header ─► seal: counter, outer header, payload, tag ─► Commit
//
// Every frame that comes has its tag checked by one, Module.open, before anything is believed that stands inside.

// packets are the frames of a session, or the Hellos of a NIC.
type packets struct {
	index   uint32 // of the session at the receiver; 0 of Hellos
	flags   uint8  // of the outer header of frames that leave
	expects uint8  // flags of frames that come, but for phase and clear headers of sealed ones
	tag     uint8  // bytes that the guard puts behind the body
	again   bool   // the next frame gets the counter of the last: only with mutate.CounterReused
	anew    bool   // the next frame gets the first counter: only with mutate.CounterRestarts
	counter uint64 // packet counter of the last frame sent, the nonce of the AEAD: no value is used twice
	guard   guard
	cookies cookieTag
}

// guard protects the frames of a session.
type guard interface {
	// seal completes a frame whose outer header has the counter: b[:n] is written, from follows,
	// and the tag. The first clear bytes stay readable. It returns the length of the frame. What it
	// computes of from it computes in the pass that copies.
	seal(b []byte, clear, n int, from []byte, counter uint64) int

	// open returns the body of a frame if it is the peer's, and nil if not. If the body is the next
	// of r, which may be nil, its payload goes to its place in the same pass, and r.placed is true.
	// now may be a little late.
	open(now clock.Time, o wire.Outer, frame []byte, r *row) (body []byte)

	// peek is open for a frame that the link still has, and that stays as it is.
	peek(o wire.Outer, frame []byte) (body []byte)
}

// start prepares frames that come with our cookie in their tags. Until aim none leave.
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

// aim sends frames to a session of a peer that wants to see its cookie in them.
func (p *packets) aim(index uint32, cookie uint64) { p.index, p.cookies.theirs = index, cookie }

// tagLen is how many bytes of a frame are its tag.
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

// frame is room for one frame behind whose outer header the caller writes; nil if the driver takes none.
func frame(out Frames, to netip.AddrPort) []byte { return out.Reserve(to) }

// form is how a frame is protected.
type form uint8

const (
	whole     form = iota // as the session's guard does it
	headClear             // on a sealed link, the headers of a Chunk stay readable: see sealPiece
	unsealed              // by checksum and cookie alone, also on a sealed link: see resident.go
)

// seal completes the frame in b and returns its length: what stands in b[wire.OuterLen:n], and from behind it.
func (p *packets) seal(k wire.Kind, b []byte, n int, from []byte) int {
	return p.sealAs(k, whole, b, n, from)
}

// sealPiece is seal for a data frame with a piece of a fragment. If its one record is a Chunk, the
// headers stay readable on a sealed link, so that the receiver can decrypt the payload to where it
// belongs.
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
	return g.seal(b, clear, n, from, o.Counter)
}

// open checks a frame of p and returns its body; nil if the frame is not the peer's. On a Checked
// link there is nothing to check.
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

// opensAnyway is three defects: a frame whose tag does not fit is taken.
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

// cookieTag guards by a checksum against damage and by a cookie against frames of an earlier session; it is no cryptography.
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
		// If the tag turns out bad the bytes written are garbage, which is safe: the receiver has not been told of them.
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

// shut is the guard of a session whose handshake is not over: no frame passes.
type shut struct{}

func (shut) seal([]byte, int, int, []byte, uint64) int {
	panic("rel: a frame leaves a session whose handshake is not over")
}

func (shut) open(clock.Time, wire.Outer, []byte, *row) []byte { return nil }
func (shut) peek(wire.Outer, []byte) []byte                   { return nil }
