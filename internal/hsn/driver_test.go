package hsn

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
)

// node is a driver on a wire that the test controls.
type node struct {
	*Driver
	t    *testing.T
	id   Host
	pool *Pool

	gives bool // whether the interface takes packets
	quick bool // packets leave with the next Flush
	out   []packet
	lay   []*byte      // where each packet's data began
	done  map[int]bool // slots whose packets have left

	buffers []*Buffer // buffers that the interface has
	in      []packet

	got  []Message
	sent []uint64
	keep bool // the modules keep their messages
}

type packet struct {
	from Host
	data []byte
}

func newNode(t *testing.T, nic uint64, pageBytes, pages int, change func(*Config)) *node {
	t.Helper()
	n := &node{t: t, id: Host{NIC: nic, Slot: 1, Gen: 1}, gives: true, done: map[int]bool{}, keep: true}
	n.pool = NewPool(pageBytes, make([]byte, pages*pageBytes), make([]byte, pages*RestBytes))
	m := Module{
		Receive: func(_ clock.Time, m Message) {
			n.got = append(n.got, m)
			if !n.keep {
				n.Free(&m)
			}
		},
		Sent: func(cookie uint64) { n.sent = append(n.sent, cookie) },
	}
	cfg := Config{Host: nic, PageBytes: pageBytes, Modules: [modules]Module{m, m}}
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg, n, n.pool)
	if err != nil {
		t.Fatal(err)
	}
	n.Driver = d
	return n
}

func (n *node) Send(slot int, _ Host, data, headers []byte) bool {
	if !n.gives {
		return false
	}
	if left, used := n.done[slot]; used && !left {
		n.t.Errorf("slot %d has another packet before its last one has left", slot)
	}
	n.out = append(n.out, packet{n.id, append(bytes.Clone(data), headers...)})
	n.lay = append(n.lay, unsafe.SliceData(data))
	n.done[slot] = false
	return true
}

func (n *node) Done(slot int) bool { return n.done[slot] }

// left marks all packets as having left.
func (n *node) left() {
	for s := range n.done {
		n.done[s] = true
	}
}

func (n *node) Flush() {
	if n.quick {
		n.left()
	}
}

func (n *node) Receive(b *Buffer) bool { n.buffers = append(n.buffers, b); return true }

func (n *node) Next() (*Buffer, int, Host, bool) {
	if len(n.in) == 0 || len(n.buffers) == 0 {
		n.in = nil // no buffers: they are lost
		return nil, 0, Host{}, false
	}
	p, b := n.in[0], n.buffers[0]
	n.in, n.buffers = n.in[1:], n.buffers[1:]
	k := copy(b.Page, p.data)
	copy(b.Rest, p.data[k:])
	return b, len(p.data), p.from, true
}

// carry delivers packets to n, in their order.
func (n *node) carry(now clock.Time, packets ...packet) {
	n.in = append(n.in, packets...)
	for n.Interrupt(now) {
	}
}

func (n *node) wants(i int, from *node, data, header []byte) {
	n.t.Helper()
	if len(n.got) <= i {
		n.t.Fatalf("%d messages came, want one more", len(n.got))
	}
	if m := n.got[i]; m.From != from.id || !bytes.Equal(m.Data, data) || !bytes.Equal(m.Header, header) {
		n.t.Fatalf("message %d came with %d bytes and header %q; want %d and %q", i, len(m.Data), m.Header, len(data), header)
	}
}

func page(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// The four scenarios of the HSN design, with the number of page bytes that the driver copies.
func TestPagesAreCopiedNoMoreThanTheirDesignSays(t *testing.T) { // HSN-15 to HSN-20, HSN-40
	for _, s := range []struct {
		name             string
		page, buffers    int
		module           ModuleID
		packets, copied  int
		beginsWithBuffer bool
	}{
		{"client 4K, page-in", 4096, 4096, Client, 1, 0, true}, // HSN-16
		// HSN-17. The server decides where its cache puts the page.
		{"client 4K, page-out", 4096, 8192, Server, 1, 0, true},
		{"client 8K, page-in", 8192, 8192, Client, 2, 4096, true},   // HSN-18
		{"client 8K, page-out", 8192, 8192, Server, 2, 4096, true},  // HSN-19
		{"control message", 0, 4096, Client, 1, 0, true},            // HSN-A8
		{"less than a page", 100, 8192, Server, 1, 0, true},         //
		{"almost a packet", 8000, 8192, Server, 1, 0, true},         //
		{"header within the page", 3000, 4096, Client, 1, 0, true},  //
		{"header beyond the page", 4090, 4096, Client, 1, 0, false}, // part in the page
	} {
		t.Run(s.name, func(t *testing.T) {
			a, b := newNode(t, 1, s.buffers, 100, nil), newNode(t, 2, s.buffers, 100, nil)
			data, header := page(s.page), []byte("what is said of it")
			if err := a.Driver.Send(s.module, b.id, data, header, 7); err != nil {
				t.Fatal(err)
			}
			if len(a.out) != s.packets {
				t.Fatalf("it goes in %d packets, want %d", len(a.out), s.packets)
			}
			for _, p := range a.out {
				if len(p.data) > MaxPacket {
					t.Errorf("a packet has %d bytes, more than %d", len(p.data), MaxPacket)
				}
			}
			b.carry(0, a.out...)
			b.wants(0, a, data, header)
			if n := b.Counts().CopiedBytes; n != uint64(s.copied) {
				t.Errorf("%d bytes were copied, want %d", n, s.copied)
			}
			if m := b.got[0]; len(m.Data) > 0 && &m.Data[0] != &m.Buffers[0].Page[0] {
				t.Error("the page does not begin where its buffer begins")
			}
		})
	}
}

func TestHalvesComeInAnyOrderAndAmongOthers(t *testing.T) { // HSN-21, HSN-A4
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, c, b := newNode(t, 1, 8192, 300, nil), newNode(t, 3, 8192, 300, nil), newNode(t, 2, 8192, 300, nil)
		want := map[string]bool{}
		for i := range 10 {
			for _, from := range []*node{a, c} {
				data, header := page(8192), fmt.Appendf(nil, "%d of %d", i, from.id.NIC)
				data[0], data[8191] = byte(i), byte(from.id.NIC)
				want[string(data)+string(header)] = true
				if err := from.Driver.Send(ModuleID(i%modules), b.id, data, header, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		packets := append(a.out, c.out...)
		r.Shuffle(len(packets), func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
		b.carry(0, packets...)
		for _, m := range b.got {
			k := string(m.Data) + string(m.Header)
			if !want[k] {
				t.Fatalf("seed %d: a message came that was not sent so, or twice: %q", seed, m.Header)
			}
			delete(want, k)
		}
		if len(want) > 0 || len(b.Driver.fragments) > 0 {
			t.Fatalf("seed %d: %d messages did not come, and %d halves are left", seed, len(want), len(b.Driver.fragments))
		}
	}
}

func TestAMessageMayBeEmpty(t *testing.T) { // HSN-A8
	a, b := newNode(t, 1, 4096, 20, nil), newNode(t, 2, 4096, 20, nil)
	_ = a.Driver.Send(Client, b.id, nil, nil, 0)
	b.carry(0, a.out...)
	b.wants(0, a, nil, nil)
}

// A node numbers the messages of both its modules in one sequence, so halves for two modules
// never have the same number. If they do, the sender is not the node that it claims to be, and
// its halves make no page of either module.
func TestHalvesForTwoModulesAreNotOnePage(t *testing.T) { // HSN-A3
	a, b := newNode(t, 1, 8192, 20, nil), newNode(t, 2, 8192, 100, nil)
	for _, m := range []ModuleID{Client, Server} {
		a.Driver.sequence = 6
		_ = a.Driver.Send(m, b.id, page(8192), nil, 0)
	}
	b.carry(0, a.out[0], a.out[3])
	if len(b.got) != 0 || len(b.Driver.fragments) != 2 {
		t.Fatalf("%d messages came of halves for two modules, and %d halves wait", len(b.got), len(b.Driver.fragments))
	}
	b.carry(0, a.out[1], a.out[2])
	b.wants(0, a, page(8192), nil)
	b.wants(1, a, page(8192), nil)
}

// A packet is sent in two pieces, and the first is the module's own memory.
func TestAPageIsSentFromWhereItLies(t *testing.T) { // HSN-36
	a := newNode(t, 1, 8192, 20, nil)
	data := page(8192)
	_ = a.Driver.Send(Client, Host{NIC: 2}, data, []byte("h"), 0)
	_ = a.Driver.Send(Client, Host{NIC: 2}, data[:4096], []byte("h"), 0)
	if want := []*byte{&data[0], &data[4096], &data[0]}; !slices.Equal(a.lay, want) {
		t.Errorf("the data of the packets begin at %v, want %v", a.lay, want)
	}
}

func TestAPoolIsOfTheMemoryThatItsOwnerGives(t *testing.T) { // HSN-25
	mem, rest := make([]byte, 3*4096+100), make([]byte, 5*RestBytes)
	p := NewPool(4096, mem, rest)
	if p.Len() != 3 {
		t.Fatalf("%d buffers of three pages and a bit", p.Len())
	}
	there := map[*byte]bool{&mem[0]: true, &mem[4096]: true, &mem[8192]: true}
	for b := p.Take(); b != nil; b = p.Take() {
		if !there[&b.Page[0]] || len(b.Page) != 4096 || cap(b.Page) != 4096 {
			t.Errorf("a buffer has a page of %d bytes, and room for %d, that is not the owner's or another's", len(b.Page), cap(b.Page))
		}
		delete(there, &b.Page[0])
	}
}

func TestAHalfThatStaysAloneIsForgottenInTime(t *testing.T) { // HSN-34
	a, b := newNode(t, 1, 8192, 100, nil), newNode(t, 2, 8192, 100, nil)
	free := b.pool.Len()
	_ = a.Driver.Send(Client, b.id, page(8192), nil, 0)
	b.carry(5, a.out[1])
	at := clock.Time(5).Add(100 * time.Millisecond)
	if b.Driver.Next() != at {
		t.Fatalf("it is forgotten at %v, want %v", b.Driver.Next(), at)
	}
	b.Expire(at - 1)
	if b.Counts().Expired != 0 {
		t.Error("it is forgotten before its time")
	}
	b.Expire(at)
	b.carry(at, a.out[0])
	if len(b.got) != 0 || b.Counts().Expired != 1 {
		t.Errorf("%d messages came of halves of which one was late", len(b.got))
	}
	b.Expire(at.Add(time.Hour))
	b.refill()
	if b.Driver.Next() != clock.Never || b.pool.Len() != free {
		t.Errorf("%d buffers are free, want %d", b.pool.Len(), free)
	}
}

func TestAHalfThatComesTwiceIsCountedAndTheQueueIsBounded(t *testing.T) { // HSN-A5
	a, b := newNode(t, 1, 8192, 100, nil), newNode(t, 2, 8192, 100, func(c *Config) { c.Fragments = 2 })
	for range 3 {
		_ = a.Driver.Send(Client, b.id, page(8192), nil, 0)
	}
	b.carry(0, a.out[0], a.out[0], a.out[2], a.out[4], a.out[3], a.out[1])
	if c := b.Counts(); c.Repeated != 1 || c.Crowded != 1 || len(b.got) != 1 {
		t.Errorf("%+v, and %d messages; want one repeated, one given up for room, and the second message", c, len(b.got))
	}
}

// HSN-6, HSN-7, HSN-A6
func TestAFullSendQueueLeavesMessagesPendingAndSendTellsWhenThereAreTooMany(t *testing.T) {
	a, b := newNode(t, 1, 4096, 20, func(c *Config) { c.Slots, c.Pending = 2, 4 }), newNode(t, 2, 4096, 100, nil)
	var refused int
	for i := range 8 {
		if err := a.Driver.Send(Client, b.id, nil, []byte{byte(i)}, uint64(i)); errors.Is(err, ErrBusy) {
			refused++
		}
	}
	if len(a.out) != 2 || refused != 2 {
		t.Fatalf("%d packets are with the interface and %d messages refused, want 2 and 2", len(a.out), refused)
	}
	for a.left(); !a.Idle(); a.left() {
		a.Output()
	}
	b.carry(0, a.out...)
	for i := range 6 {
		b.wants(i, a, nil, []byte{byte(i)})
	}
	if fmt.Sprint(a.sent) != "[0 1 2 3 4 5]" {
		t.Errorf("%v were told of, want 0 to 5", a.sent)
	}
}

// If there are not enough slots for all answers, the rest leaves by the same interrupt, as long
// as the interface is quick enough.
func TestMoreMessagesThanSlotsLeaveByOneInterrupt(t *testing.T) {
	for _, quick := range []bool{true, false} {
		a := newNode(t, 1, 4096, 20, func(c *Config) { c.Slots = 2 })
		a.quick = quick
		for i := range uint64(7) {
			if err := a.Driver.Send(Client, Host{NIC: 2}, nil, []byte{byte(i)}, i); err != nil {
				t.Fatal(err)
			}
		}
		a.Interrupt(0)
		if want := map[bool]int{true: 7, false: 2}[quick]; len(a.out) != want {
			t.Errorf("quick %v: %d packets of 7 have left in 2 slots, want %d", quick, len(a.out), want)
		}
	}
}

func TestWhatTheInterfaceDoesNotTakeStaysPending(t *testing.T) { // HSN-A6
	a, b := newNode(t, 1, 8192, 20, nil), newNode(t, 2, 8192, 100, nil)
	a.gives = false
	_ = a.Driver.Send(Server, b.id, page(8192), []byte("h"), 1)
	if a.gives = true; len(a.out) != 0 || a.Idle() {
		t.Fatal("nothing has left, and nothing waits")
	}
	a.Interrupt(0) // HSN-30: it sends the waiting messages
	b.carry(0, a.out...)
	b.wants(0, a, page(8192), []byte("h"))
	if len(a.sent) != 0 {
		t.Error("the module was told before its packets had left")
	}
	a.left()
	a.Output()
	if len(a.sent) != 1 {
		t.Errorf("a message of two packets was told of %d times", len(a.sent))
	}
}

func TestAModuleMaySendFromWithinSent(t *testing.T) { // HSN-35
	var a *node
	a = newNode(t, 1, 4096, 20, func(c *Config) {
		c.Slots = 1
		c.Modules[Client].Sent = func(cookie uint64) {
			a.sent = append(a.sent, cookie)
			if cookie < 3 {
				_ = a.Driver.Send(Client, Host{NIC: 2}, nil, nil, cookie+1)
			}
		}
	})
	_ = a.Driver.Send(Client, Host{NIC: 2}, nil, nil, 0)
	for range 5 {
		a.left()
		a.Output()
	}
	if fmt.Sprint(a.sent) != "[0 1 2 3]" || len(a.out) != 4 {
		t.Errorf("%v were told of, in %d packets", a.sent, len(a.out))
	}
}

// If Sent sends a message, the current call to Output serves it, because that call has already
// found a free slot.
func TestOutputDoesNotEnterItself(t *testing.T) { // HSN-35
	var a *node
	inside := 0
	a = newNode(t, 1, 4096, 20, func(c *Config) {
		c.Slots = 2
		c.Modules[Client].Sent = func(cookie uint64) {
			if inside++; inside > 1 {
				t.Errorf("%d is told of within the call that tells of another", cookie)
			}
			if a.sent = append(a.sent, cookie); cookie == 1 {
				_ = a.Driver.Send(Client, Host{NIC: 2}, nil, nil, 4)
			}
			a.Output() // another packet may have left, too
			inside--
		}
	})
	for i := range uint64(4) {
		_ = a.Driver.Send(Client, Host{NIC: 2}, nil, nil, i)
	}
	for range 5 {
		a.left()
		a.Output()
	}
	if fmt.Sprint(a.sent) != "[0 1 2 3 4]" || len(a.out) != 5 {
		t.Errorf("%v were told of, in %d packets", a.sent, len(a.out))
	}
}

func TestAnInterruptTakesOnlyTheFirstFewPackets(t *testing.T) { // HSN-30
	a, b := newNode(t, 1, 4096, 20, nil), newNode(t, 2, 4096, 100, func(c *Config) { c.Burst = 3 })
	for range 7 {
		_ = a.Driver.Send(Client, b.id, nil, nil, 0)
	}
	b.in = a.out
	for i, want := range []int{3, 6, 7} {
		if more := b.Interrupt(0); len(b.got) != want || more != (want < 7) {
			t.Fatalf("interrupt %d: %d packets so far, more: %v; want %d", i, len(b.got), more, want)
		}
	}
}

func TestThereAreBuffersAsLongAsThePoolHasAny(t *testing.T) { // HSN-24 to HSN-27, HSN-A6
	a, b := newNode(t, 1, 4096, 20, nil), newNode(t, 2, 4096, 4, func(c *Config) { c.Buffers = 3 })
	if len(b.buffers) != 3 {
		t.Errorf("the interface has %d buffers to begin with, want 3", len(b.buffers))
	}
	for i := range 6 {
		_ = a.Driver.Send(Client, b.id, page(4096), []byte{byte(i)}, 0)
	}
	b.carry(0, a.out...)
	if len(b.got) != 4 || b.Counts().Starved == 0 {
		t.Fatalf("%d messages came into four buffers", len(b.got))
	}
	for i := range b.got {
		b.Free(&b.got[i])
	}
	b.Interrupt(0)
	b.carry(0, a.out[4])
	b.wants(4, a, page(4096), []byte{4})
}

func TestMessagesToAModuleThatIsNotHereAreCounted(t *testing.T) { // HSN-3
	a := newNode(t, 1, 4096, 20, nil)
	b := newNode(t, 2, 4096, 100, func(c *Config) { c.Modules[Server] = Module{} })
	_ = a.Driver.Send(Client, b.id, page(4096), nil, 0)
	b.carry(0, a.out...)
	if len(b.got) != 0 || b.Counts().Foreign != 1 {
		t.Errorf("%d came, and %d are counted", len(b.got), b.Counts().Foreign)
	}
}

func TestAMessageThatCannotBeIsRefused(t *testing.T) {
	a := newNode(t, 1, 4096, 20, nil)
	for what, err := range map[string]error{
		"of more than a packet and less than two": a.Driver.Send(Client, Host{}, make([]byte, 8190), nil, 0),
		"of more than a page":                     a.Driver.Send(Client, Host{}, make([]byte, 8193), nil, 0),
		"with a long header":                      a.Driver.Send(Client, Host{}, nil, make([]byte, MaxHeader+1), 0),
	} {
		if !errors.Is(err, ErrMessage) {
			t.Errorf("a message %s: %v", what, err)
		}
	}
}

// The driver does not trust packets from others. It counts a malformed packet and frees its
// buffer.
func FuzzPacket(f *testing.F) {
	good := make([]byte, 20+HeaderLen)
	(&Header{Host: 1, Sequence: 1, Data: 10, Last: true}).put(good[20:])
	half := make([]byte, HalfPage+HeaderLen)
	(&Header{Host: 1, Sequence: 2, Data: HalfPage}).put(half[HalfPage:])
	f.Add(good, half, 8192)
	f.Add(half, half, 8192)
	f.Add(half, good, 4096)
	f.Add([]byte{}, good[:15], 4096)
	f.Fuzz(func(t *testing.T, x, y []byte, size int) {
		if size != 4096 {
			size = 8192
		}
		b := newNode(t, 2, size, 10, func(c *Config) { c.Fragments, c.Buffers = 2, 4 })
		b.keep = false
		total := b.pool.Len() + len(b.buffers)
		for i, p := range [][]byte{x, y, x, y, y, x} {
			if len(p) > size+RestBytes {
				return
			}
			b.carry(clock.Time(i), packet{Host{NIC: 1}, p})
		}
		for _, m := range b.got {
			if m.From.NIC != 1 || len(m.Data) > MaxPage || len(m.Header) > MaxHeader {
				t.Fatalf("a message of %d bytes came with a header of %d", len(m.Data), len(m.Header))
			}
		}
		b.Close()
		if n := b.pool.Len() + len(b.buffers); n != total {
			t.Fatalf("%d buffers are left of %d", n, total)
		}
	})
}

func TestNeitherSendingNorReceivingAllocates(t *testing.T) {
	a, b := newNode(t, 1, 8192, 100, nil), newNode(t, 2, 8192, 100, nil)
	b.keep = false
	data, header := page(8192), []byte("header")
	w := &silent{}
	a.Driver.nic, b.Driver.nic = w, w
	for range 100 {
		_ = a.Driver.Send(Client, b.id, data, header, 0)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = a.Driver.Send(Client, b.id, data, header, 0); a.Output() }); n > 0 {
		t.Errorf("a message allocates %v times", n)
	}
}

// silent is an interface that loses everything.
type silent struct{}

func (silent) Send(int, Host, []byte, []byte) bool      { return true }
func (silent) Done(int) bool                            { return true }
func (silent) Receive(*Buffer) bool                     { return false }
func (silent) Flush()                                   {}
func (silent) Next() (b *Buffer, n int, h Host, o bool) { return }
