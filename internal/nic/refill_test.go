package nic

import (
	"bytes"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// describer is a process half that describes its memory a few descriptors at a time: its segment
// has 4 of them.
type describer struct {
	*tester
	mem    []byte // memory of its region
	region uint32
}

func (f *fabric) describer(nic int, name string, bytes int) *describer {
	f.t.Helper()
	g := vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 4, PoolPages: 16}
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(words(rw), words(ro), g)
	if err != nil {
		f.t.Fatal(err)
	}
	n, err := vni.ParseName(name)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &describer{tester: &tester{f: f, e: f.engines[nic], name: n, v: seg.Process(), seg: seg}, mem: make([]byte, bytes)}
	if p.slot, p.gen, err = f.register(p.e, n, seg, func() { p.wakes++ }); err != nil {
		f.t.Fatal(err)
	}
	if p.region, _, err = p.e.AddRegion(p.slot, p.mem); err != nil {
		f.t.Fatal(err)
	}
	return p
}

// ringed is an operation with refilled descriptors.
type ringed struct {
	p               *describer
	receive         bool
	ctx             int
	pieces          []vni.Descriptor // all its descriptors
	filled          uint32
	taken, consumed uint32 // at its start
	refills         int
}

// cut returns descriptors of the first size bytes of p's region, in pieces whose lengths repeat.
func (p *describer) cut(size int, lengths ...int) (l []vni.Descriptor) {
	for at, i := 0, 0; at < size; i++ {
		n := min(lengths[i%len(lengths)], size-at)
		l = append(l, vni.Descriptor{Region: p.region, Offset: uint64(at), Len: uint64(n)})
		at += n
	}
	return l
}

func sum(l []vni.Descriptor) (n uint64) {
	for _, d := range l {
		n += d.Len
	}
	return n
}

func (p *describer) begin(receive bool, pieces []vni.Descriptor, fill func(i int) vni.Command) *ringed {
	p.f.t.Helper()
	take := p.v.TakeSend
	if receive {
		take = p.v.TakeReceive
	}
	i, ok := take()
	if !ok {
		p.f.t.Fatal("no context is free")
	}
	r := &ringed{p: p, receive: receive, ctx: i, pieces: pieces, taken: p.v.Taken(receive, i), consumed: p.v.Consumed(receive, i)}
	p.v.ClearDescriptors(receive, i)
	r.describe()
	p.post(fill(i))
	return r
}

// describe fills all descriptors that may be filled, and reports whether there were any.
func (r *ringed) describe() bool {
	before := r.filled
	for int(r.filled) < len(r.pieces) && r.filled-(r.p.v.Consumed(r.receive, r.ctx)-r.consumed) < 4 {
		r.p.v.SetDescriptor(r.receive, r.ctx, r.filled, r.pieces[r.filled])
		r.filled++
	}
	return r.filled > before
}

// refill describes more, and tells the NIC unless it will look anyway.
func (r *ringed) refill() {
	before := r.filled
	if r.describe() && r.p.v.Taken(r.receive, r.ctx)-r.taken == before {
		r.command()
	}
}

func (r *ringed) command() {
	which := vni.CancelSend
	if r.receive {
		which = vni.CancelReceive
	}
	r.refills++
	r.p.post(vni.Command{Code: vni.CodeRefill, Context: uint16(r.ctx), Size: which})
}

func (p *describer) token(i int) uint32 {
	p.uses[i]++
	return p.uses[i]<<16 | uint32(i)
}

func (p *describer) sendPieces(to vni.Name, tag uint64, flags uint32, pieces []vni.Descriptor) *ringed {
	p.f.t.Helper()
	return p.begin(false, pieces, func(i int) vni.Command {
		p.v.SetSend(i, &vni.SendContext{Receiver: to, Tag: tag, Flags: flags | vni.WantNotify | vni.Refilled, Token: p.token(i),
			PoolIndex: vni.NoPool, Len: sum(pieces)})
		return vni.Command{Code: vni.CodeSend, Context: uint16(i)}
	})
}

func (p *describer) recvPieces(tag uint64, pieces []vni.Descriptor) *ringed {
	p.f.t.Helper()
	return p.begin(true, pieces, func(i int) vni.Command {
		p.v.SetReceive(i, &vni.ReceiveContext{Tag: tag, Flags: vni.WantNotify | vni.Refilled, PoolIndex: vni.NoPool, Len: sum(pieces)})
		return vni.Command{Code: vni.CodeReceive, Context: uint16(i)}
	})
}

func (p *describer) memory(code vni.Code, at vni.Remote, pieces []vni.Descriptor) *ringed {
	p.f.t.Helper()
	return p.begin(false, pieces, func(i int) vni.Command {
		p.v.SetSend(i, &vni.SendContext{Flags: vni.WantNotify | vni.Refilled, Token: p.token(i), PoolIndex: vni.NoPool, Len: sum(pieces), Remote: at})
		return vni.Command{Code: code, Context: uint16(i)}
	})
}

// ends steps until r has ended, and refills all of rs and r meanwhile.
func (r *ringed) ends(rs ...*ringed) vni.Completion {
	r.p.f.t.Helper()
	r.p.f.until(20*time.Second, fmt.Sprintf("%v: context %d", r.p.name, r.ctx), func() bool {
		for _, x := range append(rs, r) {
			if !x.p.done(x.receive, x.ctx) {
				x.refill()
			}
		}
		return r.p.done(r.receive, r.ctx)
	})
	c := r.p.v.Completion(r.receive, r.ctx)
	r.p.v.Release(r.receive, r.ctx)
	return c
}

// distances holds the relative places of two processes.
var distances = []struct {
	name string
	nics int
	bad  fault.Config
}{{"local", 1, fault.Config{}}, {"reliable", 2, fault.Config{}}, {"lossy", 2, fault.Config{Seed: 1, Loss: 0.05, Reorder: 0.1}}}

// A short message may be described piece by piece, too. It is staged only when it is described
// completely.
func TestAShortMessageWaitsUnexpectedUntilItIsDescribed(t *testing.T) {
	for _, at := range distances {
		t.Run(at.name, func(t *testing.T) {
			const n = 4000
			f := newFabric(t, at.nics, at.bad)
			a, b := f.describer(0, "a/0", n), f.process(at.nics-1, "b/0")
			f.known("a/0", "b/0")
			copy(a.mem, pattern(n, 1))
			s := a.sendPieces(b.name, 7, 0, a.cut(n, 500)) // four pieces are described at once
			f.until(time.Second, "it is unexpected", func() bool { return b.e.process(b.slot).stray.n == 1 })
			f.run(time.Millisecond)
			buf := make([]byte, n)
			r := b.recv("a/0", 7, 0, buf)
			if c := s.ends(); c.Status != vni.StatusOK {
				t.Errorf("the send ended with %v", c.Status)
			}
			b.wantReceived(r, buf, pattern(n, 1))
		})
	}
}

// Decision 5, QNIX-22, QNIX-24: one message, one envelope, one match, however many descriptors it
// takes. QNIX-46: the pieces of the two sides, and those on the wire, need not be alike.
func TestAMessageOfAnyLengthIsOneEnvelopeWhateverItsPieces(t *testing.T) {
	for _, at := range distances {
		for _, cuts := range [][2][]int{{{1000}, {1000}}, {{4096}, {1000, 3, 5000}}, {{1, 70_000, 17}, {100_000}}, {{300_000}, {777}}} {
			t.Run(fmt.Sprint(at.name, cuts), func(t *testing.T) {
				const n = 300_000
				f := newFabric(t, at.nics, at.bad)
				a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
				f.known("a/0", "b/0")
				copy(a.mem, pattern(n, 1))
				received := b.e.Count(vni.NICMessagesReceived)
				r := b.recvPieces(7, b.cut(n, cuts[1]...))
				s := a.sendPieces(b.name, 7, vni.WantAccept, a.cut(n, cuts[0]...))
				if c := r.ends(s); c.Status != vni.StatusOK || c.Len != n || c.Full != n {
					t.Errorf("the receive ended with %+v", c)
				}
				if c := s.ends(); c.Status != vni.StatusOK {
					t.Errorf("the send ended with %+v", c)
				}
				if !bytes.Equal(b.mem, a.mem) {
					t.Error("the message is damaged")
				}
				if got := b.e.Count(vni.NICMessagesReceived) - received; got != 1 {
					t.Errorf("it was %d messages", got)
				}
				f.noLeaks()
			})
		}
	}
}

func TestAPUTAndAGETMayHaveMorePiecesThanARegion(t *testing.T) { // QNIX-22
	for _, at := range distances {
		t.Run(at.name, func(t *testing.T) {
			const n = 200_000
			f := newFabric(t, at.nics, at.bad)
			a, b := f.describer(0, "a/0", n), f.process(at.nics-1, "b/0")
			f.known("a/0", "b/0")
			there := make([]byte, n)
			id, key, err := b.e.AddRegion(b.slot, there)
			if err != nil {
				t.Fatal(err)
			}
			copy(a.mem, pattern(n, 1))
			h := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: id, Key: key}
			if c := a.memory(vni.CodePut, h, a.cut(n, 5000, 11)).ends(); c.Status != vni.StatusOK || !bytes.Equal(there, a.mem) {
				t.Errorf("the PUT ended with %v, whole: %v", c.Status, bytes.Equal(there, a.mem))
			}
			clear(a.mem)
			if c := a.memory(vni.CodeGet, h, a.cut(n, 1, 9000)).ends(); c.Status != vni.StatusOK || !bytes.Equal(there, a.mem) {
				t.Errorf("the GET ended with %v, whole: %v", c.Status, bytes.Equal(there, a.mem))
			}
			f.noLeaks()
		})
	}
}

// A message on credit does not wait for permission: bytes that have no place yet wait in staging.
func TestAShortMessageWaitsInStagingForTheRestOfItsPlace(t *testing.T) {
	for _, at := range distances {
		for _, n := range []int{700, 2000, 10_000} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprint(at.name, n, late), func(t *testing.T) {
					f := newFabric(t, at.nics, at.bad)
					a, b := f.process(0, "a/0"), f.describer(at.nics-1, "b/0", n)
					f.known("a/0", "b/0")
					want := pattern(n, 1)
					s := -1
					if late {
						s = a.send("b/0", 7, 0, want)
						f.settle()
					}
					r := b.recvPieces(7, b.cut(n, 100, 1))
					if !late {
						s = a.send("b/0", 7, 0, want)
					}
					if c := r.ends(); c.Status != vni.StatusOK || c.Len != uint64(n) || !bytes.Equal(b.mem, want) {
						t.Errorf("the receive ended with %+v, whole: %v", c, bytes.Equal(b.mem, want))
					}
					a.wantSent(s)
					f.noLeaks()
				})
			}
		}
	}
}

// Decision 8: a NIC can send the bytes that it is permitted, whatever its processes do. A process
// that stops while it describes a message holds up no other process, however many such messages it
// has begun.
func TestAStoppedStreamHoldsUpNobody(t *testing.T) {
	const n, small = 1 << 20, 300_000
	for _, code := range []vni.Code{vni.CodeSend, vni.CodePut} {
		t.Run(code.String(), func(t *testing.T) {
			f := newFabric(t, 2, fault.Config{Seed: 1, Jitter: 10 * time.Microsecond})
			stopped, a := f.describer(0, "stopped/0", n), f.process(0, "a/0")
			b, c := f.process(1, "b/0"), f.process(1, "c/0")
			f.known("stopped/0", "a/0", "b/0", "c/0")
			id, key, err := b.e.AddRegion(b.slot, make([]byte, n))
			if err != nil {
				t.Fatal(err)
			}
			h := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: id, Key: key}
			for range 6 { // and none is refilled
				if code == vni.CodePut {
					stopped.memory(code, h, stopped.cut(n, 1000))
				} else {
					b.recv("", 1, 0, make([]byte, n))
					stopped.sendPieces(b.name, 1, 0, stopped.cut(n, 1000))
				}
			}
			f.settle()
			f.until(time.Second, "nothing is permitted that does not come", func() bool { return b.e.grants.outstanding == 0 && b.e.grants.waiting.n == 0 })
			for i := range byte(3) {
				buf := make([]byte, small)
				r, s := c.recv("", 2, 0, buf), a.send("c/0", 2, 0, pattern(small, i))
				c.wantReceived(r, buf, pattern(small, i))
				a.wantSent(s)
			}
		})
	}
}

// Credit belongs to a session. A message that has arrived whole stays when the session ends, and
// its cost moves from credit to the quota. Otherwise its end would give credit that a later
// session does not know of.
func TestAMessageThatWaitsForItsPlaceOutlivesTheCreditThatItCameOn(t *testing.T) {
	const n = 2000
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.describer(1, "b/0", n)
	f.known("a/0", "b/0")
	a.wantSent(a.send("b/0", 1, 0, nil)) // brings credit, and stays
	want := pattern(n, 1)
	a.wantSent(a.send("b/0", 7, 0, want))
	f.settle()
	r := b.recvPieces(7, b.cut(n, 100))
	p := b.e.procs.at(b.slot)
	f.until(time.Second, "it is matched", func() bool { return p.recvs[r.ctx].state == recvMatched })
	if !p.recvs[r.ctx].inb.onCredit {
		t.Fatal("it did not come on credit")
	}
	a.e.Close(f.now)
	f.until(time.Second, "its NIC is gone", func() bool { return !b.e.peerOf(1).ep.Up() })
	if cost := int(stagedCost(n) + stagedCost(0)); p.staged != cost || p.credited != 0 {
		t.Errorf("%d bytes are staged and %d promised, want %d and none", p.staged, p.credited, cost)
	}
	if c := r.ends(); c.Status != vni.StatusOK || !bytes.Equal(b.mem, want) {
		t.Errorf("the receive ended with %v, whole: %v", c.Status, bytes.Equal(b.mem, want))
	}
	if cost := int(stagedCost(0)); p.staged != cost {
		t.Errorf("%d bytes are staged afterwards, want %d", p.staged, cost)
	}
}

// Issue 3: a Send from a region or the pool is not copied on the sending side. The link's frames
// are gathered from that very memory until it is acknowledged.
func TestASendFromARegionOrThePoolIsGatheredFromThere(t *testing.T) {
	const n = 60_000
	// So that each message asks for permission, and waits.
	f := newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) { c.InitialCreditBytes = -1 })
	a, b := f.describer(0, "a/0", n), f.process(1, "b/0")
	f.known("a/0", "b/0")
	within := func(b, mem []byte) bool {
		at, start := uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&mem[0]))
		return at >= start && at+uintptr(len(b)) <= start+uintptr(len(mem))
	}
	gathered := func(ctx int, mem []byte) {
		t.Helper()
		f.until(time.Second, "it waits for permission", func() bool { return a.e.procs.at(a.slot).sends[ctx].state == sendPermission })
		for _, part := range a.e.procs.at(a.slot).sends[ctx].frag.Parts {
			if !within(part, mem) {
				t.Error("a part is elsewhere")
			}
		}
	}
	copy(a.mem, pattern(n, 1))
	s := a.sendPieces(b.name, 1, 0, a.cut(n, 1000))
	gathered(s.ctx, a.mem)
	buf := make([]byte, n)
	r := b.recv("", 1, 0, buf)
	s.ends()
	b.wantReceived(r, buf, a.mem)

	for page := range int32(2) { // page 0 is a page like any other (QNIX-17)
		pool := a.seg.Pool()[page*limits.PageBytes:][:n-limits.PageBytes]
		copy(pool, pattern(len(pool), 2))
		i, _ := a.v.TakeSend()
		a.v.SetSend(i, &vni.SendContext{Receiver: b.name, Tag: 2, Flags: vni.WantNotify, Token: a.token(i), PoolIndex: page, Size: 14, Len: uint64(len(pool))})
		a.post(vni.Command{Code: vni.CodeSend, Context: uint16(i)})
		gathered(i, pool)
		r = b.recv("", 2, 0, buf[:len(pool)])
		a.wantSent(i)
		b.wantReceived(r, buf, pool)
	}
	f.noLeaks()
}

// A receive into a region or the pool is written once: the bytes of a matched message go to their
// place without staging.
func TestAMatchedMessageIsWrittenOnce(t *testing.T) {
	const n = 60_000
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.describer(1, "b/0", n)
	f.known("a/0", "b/0")
	r := b.recvPieces(1, b.cut(n, 1000))
	s := a.send("b/0", 1, 0, pattern(n, 1))
	staged := 0
	f.until(time.Second, "it has come", func() bool {
		r.refill()
		staged = max(staged, b.e.staging.inUse)
		return b.done(true, r.ctx)
	})
	if staged > 0 || !bytes.Equal(b.mem, pattern(n, 1)) {
		t.Errorf("%d bytes were staged on the way; whole: %v", staged, bytes.Equal(b.mem, pattern(n, 1)))
	}
	r.ends()
	a.wantSent(s)
	f.noLeaks()
}

// QNIX-48: the pieces that have arrived are delivered and staging is released; later pieces go to
// their place.
func TestAReceivePostedInTheMiddleOfAMessageEndsItsStaging(t *testing.T) {
	const n = limits.StagedMessage
	f := newFabric(t, 2, fault.Config{Seed: 1, Jitter: 100 * time.Microsecond})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	want, buf := pattern(n, 1), make([]byte, n)
	s := a.send("b/0", 1, 0, want)
	var inb *inbound
	f.until(time.Second, "a part of it has come", func() bool {
		inb = b.e.procs.at(b.slot).stray.front()
		return inb != nil && inb.got > 0 && inb.got < inb.length
	})
	if inb.staging == nil {
		t.Fatal("it is not staged")
	}
	before := inb.got
	r := b.recv("", 1, 0, buf)
	f.until(time.Second, "it is matched", func() bool { return b.e.procs.at(b.slot).recvs[r].state == recvMatched })
	if inb.staging != nil || b.e.staging.inUse != 0 {
		t.Error("it is staged still")
	}
	there := uint64(0)
	for i := range buf { // pieces arrive in any order
		if buf[i] == want[i] {
			there++
		}
	}
	if there < before {
		t.Errorf("%d bytes had come, %d are in their place", before, there)
	}
	b.wantReceived(r, buf, want)
	a.wantSent(s)
	f.noLeaks()
}

// The sender of a SendDelivered learns that the receive of its message was too short. A sender
// that uses Send does not, nor one whose message was accepted before it was matched.
func TestTruncationIsToldToBothSides(t *testing.T) {
	for _, at := range distances {
		for _, n := range []int{700, 10_000, 200_000} {
			t.Run(fmt.Sprint(at.name, n), func(t *testing.T) {
				f := newFabric(t, at.nics, at.bad)
				a, b := f.process(0, "a/0"), f.describer(at.nics-1, "b/0", n)
				f.known("a/0", "b/0")
				buf := make([]byte, n/2)
				for _, x := range []struct {
					flags uint32
					want  vni.Status
				}{{vni.WantAccept, vni.StatusTruncated}, {0, vni.StatusOK}} {
					clear(b.mem)
					r := b.recvPieces(1, b.cut(len(buf), 3000, 7))
					f.settle()
					s := a.send("b/0", 1, x.flags, pattern(n, 1))
					if c := r.ends(); c.Status != vni.StatusTruncated || c.Len != uint64(n/2) || c.Full != uint64(n) || !bytes.Equal(b.mem[:n/2], pattern(n, 1)[:n/2]) {
						t.Errorf("flags %d: the receive ended with %+v", x.flags, c)
					}
					if c := a.finish(false, s); c.Status != x.want {
						t.Errorf("flags %d: the send ended with %v, not %v", x.flags, c.Status, x.want)
					}
				}
				f.noLeaks()
			})
		}
	}
}

// A wrong descriptor fails its own operation at any time, and is counted. The other side notices
// only what it must.
func TestAWrongDescriptorInARefillFailsThatOperation(t *testing.T) {
	const n = 100_000
	for _, at := range distances {
		for _, x := range []struct {
			what string
			d    vni.Descriptor
			want vni.Status
		}{
			{"no such region", vni.Descriptor{Region: 9, Len: 1000}, vni.StatusBadRegion},
			{"beyond its end", vni.Descriptor{Region: 1, Offset: n, Len: 1000}, vni.StatusOutOfRange},
			{"empty", vni.Descriptor{Region: 1}, vni.StatusBadArgument},
			{"beyond the message", vni.Descriptor{Region: 1, Len: n}, vni.StatusBadArgument},
		} {
			t.Run(at.name+" "+x.what, func(t *testing.T) {
				f := newFabric(t, at.nics, at.bad)
				a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
				f.known("a/0", "b/0")
				copy(a.mem, pattern(n, 1))
				bad := func(p *describer) []vni.Descriptor {
					l := p.cut(n, 1000)
					l[50] = x.d
					return l
				}
				total := func(r *ringed) { r.pieces = bad(r.p) } // after the length was announced
				counted := a.e.Count(vni.NICFailedBadArgument)

				r, s := b.recvPieces(1, b.cut(n, 1000)), a.sendPieces(b.name, 1, 0, a.cut(n, 1000))
				total(s)
				if c := s.ends(r); c.Status != x.want {
					t.Errorf("the send ended with %v, not %v", c.Status, x.want)
				}
				if c := r.ends(); c.Status != vni.StatusWithdrawn {
					t.Errorf("its receive ended with %v", c.Status)
				}
				if a.e.Count(vni.NICFailedBadArgument) != counted+1 {
					t.Error("it was not counted")
				}

				r, s = b.recvPieces(2, b.cut(n, 1000)), a.sendPieces(b.name, 2, vni.WantAccept, a.cut(n, 1000))
				total(r)
				if c := r.ends(s); c.Status != x.want || c.Len != 50_000 || !bytes.Equal(b.mem[:50_000], a.mem[:50_000]) {
					t.Errorf("the receive ended with %+v, not %v", c, x.want)
				}
				if c := s.ends(); c.Status != vni.StatusOK {
					t.Errorf("its send ended with %v", c.Status)
				}
				f.noLeaks()
			})
		}
	}
}

// Any operation may be cancelled at any step: both operations end, nothing is left behind, and the
// next message arrives.
func TestCancelAtEveryStepOfARefilledMessageLeavesNothingBehind(t *testing.T) { // decision 9
	const n = 50_000
	for _, which := range []uint32{vni.CancelSend, vni.CancelReceive} {
		seen := map[string]int{}
		for _, at := range distances {
			for step := 0; step < 120; step += 1 + step/20 {
				f := newFabric(t, at.nics, at.bad)
				a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
				f.known("a/0", "b/0")
				copy(a.mem, pattern(n, 1))
				r, s := b.recvPieces(1, b.cut(n, 3000)), a.sendPieces(b.name, 1, 0, a.cut(n, 1000))
				for range step {
					f.step()
					r.refill()
					s.refill()
				}
				if which == vni.CancelSend {
					a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(s.ctx), Size: which})
				} else {
					b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r.ctx), Size: which})
				}
				var sent vni.Completion
				if which == vni.CancelReceive {
					got := r.ends(s)
					seen[got.Status.String()]++
					if got.Status != vni.StatusOK { // the message has not found its receive yet
						r = b.recvPieces(1, b.cut(n, 3000))
						got = r.ends(s)
					}
					if sent = s.ends(); sent.Status != vni.StatusOK || got.Status != vni.StatusOK || !bytes.Equal(a.mem, b.mem) {
						t.Fatalf("%s, step %d: sent %v, received %v", at.name, step, sent.Status, got.Status)
					}
				} else {
					sent = s.ends(r)
					f.until(time.Second, "the receive is rid of its message", func() bool {
						r.refill()
						return b.done(true, r.ctx) || b.e.procs.at(b.slot).recvs[r.ctx].state == recvPosted
					})
					seen[sent.Status.String()]++
					// It waits in its place for another message.
					if !b.done(true, r.ctx) && sent.Status != vni.StatusOK {
						s = a.sendPieces(b.name, 1, 0, a.cut(n, 1000))
						if c := s.ends(r); c.Status != vni.StatusOK {
							t.Fatalf("%s, step %d: the next ended with %v", at.name, step, c.Status)
						}
					}
					got := r.ends()
					seen["receive "+got.Status.String()]++
					if got.Status != vni.StatusOK && got.Status != vni.StatusWithdrawn || got.Status == vni.StatusOK && !bytes.Equal(a.mem, b.mem) {
						t.Fatalf("%s, step %d: received %v, whole: %v", at.name, step, got.Status, bytes.Equal(a.mem, b.mem))
					}
				}
				f.noLeaks()
			}
		}
		if seen["cancelled"] == 0 || seen["ok"] == 0 || which == vni.CancelSend && seen["receive withdrawn"] == 0 {
			t.Errorf("cancelling list %d, these ends were seen: %v", which, seen)
		}
	}
}

func TestTheEndOfOneProcessEndsARefilledMessageForTheOther(t *testing.T) {
	const n = 50_000
	for _, at := range distances {
		for _, sender := range []bool{true, false} {
			for step := 5; step < 60; step += 9 {
				f := newFabric(t, at.nics, at.bad)
				a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
				f.known("a/0", "b/0")
				r, s := b.recvPieces(1, b.cut(n, 3000)), a.sendPieces(b.name, 1, vni.WantAccept, a.cut(n, 1000))
				for range step {
					f.step()
					r.refill()
					s.refill()
				}
				if sender {
					a.exit()
					f.settle()
					b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r.ctx), Size: vni.CancelReceive})
					if c := r.ends(); c.Status != vni.StatusCancelled && c.Status != vni.StatusWithdrawn && c.Status != vni.StatusOK {
						t.Errorf("%s, step %d: the receive ended with %v", at.name, step, c.Status)
					}
				} else {
					b.exit()
					if c := s.ends(); c.Status != vni.StatusProcessGone && c.Status != vni.StatusOK {
						t.Errorf("%s, step %d: the send ended with %v", at.name, step, c.Status)
					}
				}
				f.noLeaks()
			}
		}
	}
}

// A sender that is stopped in the middle of its message does not hold the receiver: the receive
// can be cancelled.
func TestAStoppedSenderDoesNotKeepACancelledReceive(t *testing.T) {
	const n = 50_000
	for _, at := range distances {
		f := newFabric(t, at.nics, at.bad)
		a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
		f.known("a/0", "b/0")
		r, s := b.recvPieces(1, b.cut(n, 20_000)), a.sendPieces(b.name, 1, 0, a.cut(n, 1000))
		f.until(time.Second, "what is described has come", func() bool { return a.v.Consumed(false, s.ctx)-s.consumed == 4 })
		b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r.ctx), Size: vni.CancelReceive})
		if c := r.ends(); c.Status != vni.StatusCancelled {
			t.Errorf("%s: the receive ended with %v", at.name, c.Status)
		}
		if c := a.finish(false, s.ctx); c.Status != vni.StatusCancelled {
			t.Errorf("%s: the send ended with %v", at.name, c.Status)
		}
		f.noLeaks()
	}
}

// Nor does a slow sender hold the receiver: the process takes a NIC that does not answer its
// Cancel for a while for dead.
func TestASlowSenderDoesNotKeepACancelledReceive(t *testing.T) {
	const n = 50_000
	for _, at := range distances {
		f := newFabric(t, at.nics, at.bad)
		a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
		f.known("a/0", "b/0")
		r, s := b.recvPieces(1, b.cut(n, 20_000)), a.sendPieces(b.name, 1, 0, a.cut(n, 1000))
		f.until(time.Second, "what is described has come", func() bool { return a.v.Consumed(false, s.ctx)-s.consumed == 4 })
		cancelled := f.now
		b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r.ctx), Size: vni.CancelReceive})
		last := f.now
		f.until(limits.DaemonPatience, at.name+": the Cancel is answered", func() bool {
			if f.now.Sub(last) > time.Second {
				last = f.now
				s.refill()
			}
			r.refill()
			return b.done(true, r.ctx)
		})
		if c := b.v.Completion(true, r.ctx); c.Status != vni.StatusCancelled || f.now.Sub(cancelled) < time.Second {
			t.Errorf("%s: the receive ended with %v, %v after the Cancel", at.name, c.Status, f.now.Sub(cancelled))
		}
		b.v.Release(true, r.ctx)
		s.ends()
		f.noLeaks()
	}
}

func TestRefilledOperationsAllocateNothing(t *testing.T) { // decision 16
	for _, at := range distances[:2] {
		const n = 100_000
		f := newFabric(t, at.nics, at.bad)
		a, b := f.describer(0, "a/0", n), f.describer(at.nics-1, "b/0", n)
		f.known("a/0", "b/0")
		out, in := a.cut(n, 2000), b.cut(n, 5000)
		run := func() {
			b.v.SetReceive(0, &vni.ReceiveContext{Flags: vni.WantNotify | vni.Refilled, PoolIndex: vni.NoPool, Len: n})
			r, s := ringed{p: b, receive: true, pieces: in}, ringed{p: a, pieces: out}
			for _, x := range []*ringed{&r, &s} {
				take := x.p.v.TakeSend
				if x.receive {
					take = x.p.v.TakeReceive
				}
				x.ctx, _ = take()
				x.taken, x.consumed = x.p.v.Taken(x.receive, x.ctx), x.p.v.Consumed(x.receive, x.ctx)
				x.p.v.ClearDescriptors(x.receive, x.ctx)
				x.describe()
			}
			b.v.SetReceive(r.ctx, &vni.ReceiveContext{Flags: vni.WantNotify | vni.Refilled, PoolIndex: vni.NoPool, Len: n})
			a.v.SetSend(s.ctx, &vni.SendContext{Receiver: b.name, Flags: vni.WantNotify | vni.Refilled, Token: a.token(s.ctx), PoolIndex: vni.NoPool, Len: n})
			b.post(vni.Command{Code: vni.CodeReceive, Context: uint16(r.ctx)})
			a.post(vni.Command{Code: vni.CodeSend, Context: uint16(s.ctx)})
			for !a.done(false, s.ctx) || !b.done(true, r.ctx) {
				f.step()
				r.refill()
				s.refill()
			}
			a.v.Release(false, s.ctx)
			b.v.Release(true, r.ctx)
		}
		for range 100 {
			run()
		}
		if got := f.allocations(20, run); got != 0 {
			t.Errorf("%s: %v allocations a message", at.name, got)
		}
	}
}

func TestASenderThatDescribesNoMoreHoldsUpNobodyBesideIt(t *testing.T) { // decision 8
	for _, d := range distances[1:] {
		t.Run(d.name, func(t *testing.T) {
			f := newFabric(t, d.nics, d.bad)
			stopped, other := f.describer(0, "stopped/0", 4<<20), f.process(0, "other/0")
			b := f.process(1, "b/0")
			f.known("stopped/0", "other/0", "b/0")
			buf := make([]byte, 4<<20)
			first := b.recv("stopped/0", 1, 0, buf)
			r := stopped.sendPieces(b.name, 1, 0, stopped.cut(4<<20, 10_000))
			f.run(100 * time.Millisecond)
			if got := b.e.process(b.slot).recvs[first].inb; got == nil || got.got == 0 {
				t.Fatal("nothing of the first message has come")
			}
			data, got := pattern(300_000, 2), make([]byte, 300_000)
			for range 3 {
				second := b.recv("other/0", 2, 0, got)
				s := other.send("b/0", 2, 0, data)
				b.wantReceived(second, got, data)
				other.wantSent(s)
				f.run(100 * time.Millisecond)
			}
			r.ends()
			b.wantReceived(first, buf, stopped.mem)
			f.noLeaks()
		})
	}
}
