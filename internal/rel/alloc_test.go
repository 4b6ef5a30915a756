package rel

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// wireTo is a link that allocates nothing: frames go straight into the other module's queue.
type wireTo struct {
	from   netip.AddrPort
	frames [256][1472]byte
	sizes  [256]int
	n      int
}

func (l *wireTo) MTU() int { return 1472 }
func (l *wireTo) Reserve(to netip.AddrPort) []byte {
	if l.n == len(l.frames) {
		return nil
	}
	return l.frames[l.n][:]
}
func (l *wireTo) Commit(n int) { l.sizes[l.n] = n; l.n++ }

func (l *wireTo) Flush(clock.Time) {}

func (l *wireTo) drain(now clock.Time, m *Module) {
	for i := range l.n {
		m.Receive(now, l.from, l.frames[i][:l.sizes[i]])
	}
	l.n = 0
}

// sink is an owner that ignores all calls.
type sink struct{ records, released, datagrams int }

func (s *sink) Admit(clock.Time, uint64, netip.AddrPort) error                          { return nil }
func (s *sink) Vouch(clock.Time, uint64, netip.AddrPort, trust.PublicKey, []byte) error { return nil }
func (s *sink) Stranger(clock.Time, netip.AddrPort, error)                              {}
func (s *sink) Outdated(clock.Time, uint64, netip.AddrPort)                             {}
func (s *sink) Deliver(clock.Time, *Endpoint, wire.Record)                              { s.records++ }
func (s *sink) Datagram(_ clock.Time, _ *Endpoint, _ uint8, payload []byte) {
	s.datagrams++
}
func (s *sink) Acknowledged(*Fragment, uint64, uint64)      {}
func (s *sink) Released(clock.Time, *Fragment)              { s.released++ }
func (s *sink) Writable(clock.Time, *Endpoint)              {}
func (s *sink) Up(clock.Time, *Endpoint)                    {}
func (s *sink) Down(now clock.Time, e *Endpoint, why error) {}

// couple holds two modules joined by two wireTos.
type couple struct {
	now    clock.Time
	a, b   *Module
	ea     *Endpoint
	ab, ba wireTo
	sa, sb sink

	account Account
	clock   func() clock.Time
}

// linkOf is the kind of link of a couple.
type linkOf uint8

const (
	plainLink linkOf = iota
	sealedLink
	reliableLink
)

func (l linkOf) String() string { return [...]string{"plain", "sealed", "reliable"}[l] }

func newCouple(t testing.TB, link linkOf) *couple {
	c := &couple{now: clock.Time(time.Second)}
	c.clock = func() clock.Time { return c.now }
	c.ab.from, c.ba.from = address(1), address(2)
	config := func(nic uint64) Config {
		lossy := link != reliableLink
		cfg := Config{NIC: nic, Incarnation: 1, Secrets: secret.Seeded(nic), MTU: 1472, Tagged: lossy, Narrow: lossy, Reliable: !lossy, ReceiveCapacity: 1 << 20}
		if link == sealedLink {
			cfg.Security = &Security{Key: trust.PrivateKey{8: byte(nic), 9: 77}, Fabric: []trust.FabricKey{testFabric}}
		}
		return cfg
	}
	c.a, c.b = New(config(1), &c.sa), New(config(2), &c.sb)
	c.ea, _ = c.a.Open(2, address(2))
	c.ea.Connect(c.now)
	for range 10 {
		c.turn()
	}
	if !c.ea.Up() {
		t.Fatal("no session")
	}
	return c
}

// turn polls both modules once, and lets 5 µs pass.
func (c *couple) turn() {
	c.a.Progress(c.now, &c.ab)
	c.ab.drain(c.now, c.b)
	c.b.Progress(c.now, &c.ba)
	c.ba.drain(c.now, c.a)
	c.now += 5000
}

// short sends n messages of 64 bytes, which share segments.
func (c *couple) short(n int) {
	for range n {
		if b := c.ea.Reserve(c.now, wire.Command, wire.FragLen+64); b != nil {
			wire.PutFrag(b, &wire.Envelope{}, 64)
		}
	}
	c.turn()
}

// single sends a message of 64 bytes in a segment of its own.
func (c *couple) single() {
	if b, _ := c.ea.Begin(wire.Command, wire.FragLen+64, AsFrame|AsSingle, &c.account, &c.ab); b != nil {
		wire.PutFrag(b, &wire.Envelope{}, 64)
		c.ea.End(c.now, c.clock, false, &c.ab)
	}
	c.turn()
}

// long posts a fragment as far as the window allows.
func (c *couple) long(f *Fragment) {
	f.Next = 0
	f.Limit = f.Length
	for c.ea.Post(c.now, f, 44) > 0 {
	}
	for f.active {
		c.turn()
		for c.ea.Post(c.now, f, 44) > 0 {
		}
	}
}

// The steady state allocates nothing (decision 16, P12): send, receive, acknowledge, time, and
// start again.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	data := make([]byte, 200_000)
	for _, link := range []linkOf{plainLink, sealedLink, reliableLink} {
		c := newCouple(t, link)
		f := &Fragment{Space: wire.Data, Type: wire.TypeChunk, ID: 1, Parts: [][]byte{data}, Length: uint64(len(data)), HeaderLen: wire.ChunkLen}
		wire.PutChunk(f.HeaderBuf[:], 0, 1, 0, 0)
		work := func() {
			c.short(1)
			c.single()
			c.short(40)
			c.long(f)
			for _, n := range []int{9, 5000} {
				c.ea.Datagram(1, n)
				c.turn()
			}
			for range 20 {
				c.turn()
			}
		}
		for range 50 {
			work()
		}
		if n := testing.AllocsPerRun(200, work); n != 0 {
			t.Errorf("link %v: %v allocations for 42 messages and 200 kB", link, n)
		}
		if c.sb.records == 0 || c.sa.released == 0 || c.sb.datagrams == 0 {
			t.Error("nothing was moved")
		}
	}
}

func BenchmarkShort64(b *testing.B) {
	for _, link := range []linkOf{plainLink, sealedLink} {
		for _, per := range []int{1, 14, 140} {
			b.Run(link.String()+"/"+map[int]string{1: "lone", 14: "frame", 140: "batch"}[per], func(b *testing.B) {
				c := newCouple(b, link)
				b.ReportAllocs()
				for i := 0; i < b.N; i += per {
					c.short(per)
				}
			})
		}
	}
}

func BenchmarkLong(b *testing.B) {
	for _, link := range []linkOf{plainLink, sealedLink} {
		b.Run(link.String(), func(b *testing.B) {
			c := newCouple(b, link)
			data := make([]byte, 1<<20)
			f := &Fragment{Space: wire.Data, Type: wire.TypeChunk, ID: 1, Parts: [][]byte{data}, Length: uint64(len(data)), HeaderLen: wire.ChunkLen}
			wire.PutChunk(f.HeaderBuf[:], 0, 1, 0, 0)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				c.long(f)
			}
		})
	}
}

func BenchmarkIdleProgress(b *testing.B) {
	c := newCouple(b, plainLink)
	for b.Loop() {
		c.a.Progress(c.now, &c.ab)
	}
}
