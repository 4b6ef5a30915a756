package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/wire"
)

// keeper keeps a copy of every frame that is sent.
type keeper struct {
	link.Driver
	open   []byte
	frames [][]byte
}

func (p *keeper) Reserve(to link.Addr) []byte {
	p.open = p.Driver.Reserve(to)
	return p.open
}

func (p *keeper) Commit(n int) {
	p.frames = append(p.frames, append([]byte(nil), p.open[:n]...))
	p.Driver.Commit(n)
}

// spaces returns the records of the sent data frames, by their space.
func (p *keeper) spaces() map[wire.Space][]wire.Record {
	found := map[wire.Space][]wire.Record{}
	for _, frame := range p.frames {
		o, _, err := wire.ParseOuter(frame)
		if err != nil || o.Kind != wire.KindData {
			continue
		}
		body := frame[wire.OuterLen:]
		if o.Flags&wire.FlagTagged != 0 {
			body = body[:len(body)-wire.TagLen]
		}
		h, records, err := wire.ParseInner(body)
		for err == nil && len(records) > 0 {
			var r wire.Record
			r, records = wire.NextRecord(records)
			found[h.Space] = append(found[h.Space], r)
		}
	}
	return found
}

// records finds the records of a type.
func (p *keeper) records(t wire.Type) (l []wire.Record) {
	for _, records := range p.spaces() {
		for _, r := range records {
			if r.Type() == t {
				l = append(l, r)
			}
		}
	}
	return l
}

// kept makes two NICs, of which the first's frames are kept.
func kept(t *testing.T) (f *fabric, sent *keeper) {
	f, sent = newFabric(t, 0, fault.Config{}), &keeper{}
	f.addNIC(1, 1, fault.Config{}, func(c *Config) { sent.Driver, c.Link = c.Link, sent })
	if err := f.addNIC(2, 1, fault.Config{}).AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	return f, sent
}

// QNIX-43: a request for permission has the length of the message, and the number and length of
// its packets.
func TestARequestSaysWhatWillCome(t *testing.T) {
	f, sent := kept(t)
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	const size = 100_000
	buf := make([]byte, size)
	r := b.recv("a/0", 9, 0, buf)
	s := a.send("b/0", 9, 0, pattern(size, 1))
	a.wantSent(s)
	b.wantReceived(r, buf, pattern(size, 1))
	l := sent.records(wire.TypeRequest)
	if len(l) != 1 {
		t.Fatalf("%d requests were sent; want 1", len(l))
	}
	q := l[0].Request()
	if q.Envelope.Tag != 9 || q.Envelope.SrcSlot != a.slot || q.Envelope.DstSlot != b.slot || q.Length != size {
		t.Errorf("it says %+v", q)
	}
	longest := 0
	pieces := 0
	for _, c := range sent.records(wire.TypeChunk) {
		if id, _ := c.Chunk(); id == q.ID {
			pieces++
			longest = max(longest, len(c.Payload()))
		}
	}
	if int(q.PacketLen) != longest || int(q.Packets) != pieces {
		t.Errorf("it announces %d packets of %d bytes; %d came, the longest of %d", q.Packets, q.PacketLen, pieces, longest)
	}
	f.until(time.Second, "rest", func() bool { return f.engines[0].rel.Idle() })
}

// USNIC-14, USNIC-15: messages of one tiny packet go in the command space, all others in the data
// space, so that a long message does not hold up a short one (USNIC-52).
func TestTheLengthOfAMessageSaysItsSpace(t *testing.T) {
	f, sent := kept(t)
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	buf := make([]byte, 10)
	r := b.recv("a/0", 0, 0, buf)
	a.wantSent(a.send("b/0", 0, 0, buf)) // by permission, and credit comes with it
	b.wantReceived(r, buf, buf)
	for _, c := range []struct {
		size  int
		space wire.Space
	}{{1, wire.Command}, {768, wire.Command}, {769, wire.Data}, {1400, wire.Data}, {5000, wire.Data}, {100_000, wire.Data}} {
		sent.frames = nil
		buf := make([]byte, c.size)
		r := b.recv("a/0", 1, 0, buf)
		s := a.send("b/0", 1, 0, pattern(c.size, 1))
		b.wantReceived(r, buf, pattern(c.size, 1))
		a.wantSent(s)
		came := 0
		for space, records := range sent.spaces() {
			for _, r := range records {
				if r.Type() == wire.TypeFrag || r.Type() == wire.TypeEager || r.Type() == wire.TypeChunk {
					came += len(r.Payload())
					if space != c.space {
						t.Errorf("a message of %d bytes went in the %v space; want %v", c.size, space, c.space)
					}
				}
			}
		}
		if came != c.size {
			t.Errorf("of a message of %d bytes data frames had %d", c.size, came)
		}
	}
}
