package linktest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link"
)

// The functions in link.Caps are tested if the driver has them.

// testRun writes frames of one length by runs, with and without single frames before them.
func testRun(t *testing.T, s Suite) {
	a, b := s.Make(t)
	c := a.Caps()
	if c.ReserveRun == nil {
		t.Skip("the driver has no ReserveRun")
	}
	r := rand.New(rand.NewPCG(9, 8))
	var in Inbox
	var want [][]byte
	for range 100 {
		if r.IntN(2) > 0 {
			want = append(want, content(uint64(len(want)), 100))
			trySend(a, b.Addr(), want[len(want)-1])
		}
		size, wanted, put := 200+r.IntN(a.MTU()-199), 1+r.IntN(20), 0
		room := c.ReserveRun(b.Addr(), size, wanted)
		if len(room) < size || len(room) > size*wanted || len(room)%size != 0 {
			t.Fatalf("ReserveRun offers %d bytes for %d frames of %d", len(room), wanted, size)
		}
		for ; len(room) > 0 && (put == 0 || r.IntN(10) > 0); room = room[size:] {
			f := content(uint64(len(want)), size)
			if put++; c.Copy != nil {
				c.Copy(room[:size], f)
			} else {
				copy(room, f)
			}
			want = append(want, f)
		}
		c.CommitRun(put)
		a.Flush(now())
		Collect(t, b, &in, len(want))
	}
	for i, f := range in.Frames {
		if !bytes.Equal(f, want[i]) {
			t.Fatalf("frame %d differs from what was sent", i)
		}
	}
	settle(t, b, "after all frames")
}

func testPost(t *testing.T, s Suite) {
	a, b := s.Make(t)
	p := a.Caps()
	if p.Post == nil {
		t.Skip("the driver has no Post")
	}
	r := rand.New(rand.NewPCG(9, 9))
	var in Inbox
	var want [][]byte
	for range 500 {
		for range r.IntN(3) { // committed, and not flushed
			want = append(want, content(uint64(len(want)), 1+r.IntN(300)))
			if !trySend(a, b.Addr(), want[len(want)-1]) {
				t.Fatal("Reserve = nil though everything has been taken")
			}
		}
		if a.Reserve(b.Addr()) == nil {
			t.Fatal("Reserve = nil though everything has been taken")
		}
		want = append(want, content(uint64(len(want)), r.IntN(300)))
		p.Post(now(), want[len(want)-1])
		Collect(t, b, &in, len(want))
	}
	for i, f := range in.Frames {
		if !bytes.Equal(f, want[i]) {
			t.Fatalf("frame %d differs from what was sent", i)
		}
	}
	settle(t, b, "after all frames")
	if a.Reserve(s.Nobody) == nil {
		t.Fatal("Reserve = nil for an address without a driver")
	}
	p.Post(now(), want[0])
}

func testPostLone(t *testing.T, s Suite) {
	a, b := s.Make(t)
	p := a.Caps()
	if p.PostLone == nil {
		t.Skip("the driver has no PostLone")
	}
	r := rand.New(rand.NewPCG(9, 9))
	var in Inbox
	var want [][]byte
	posted := 0
	for range 2000 {
		for range r.IntN(3) { // committed, and perhaps flushed
			want = append(want, content(uint64(len(want)), 1+r.IntN(300)))
			if !trySend(a, b.Addr(), want[len(want)-1]) {
				t.Fatal("Reserve = nil though everything has been taken")
			}
		}
		if r.IntN(2) > 0 {
			a.Flush(now())
		}
		f := content(uint64(len(want)), 48+r.IntN(300))
		if p.PostLone(now(), b.Addr(), head(f), f[48:]) {
			want = append(want, f)
			posted++
		}
		a.Flush(now())
		Collect(t, b, &in, len(want))
	}
	if posted < 200 {
		t.Errorf("%d frames of 2000 were posted", posted)
	}
	for i, f := range in.Frames {
		if !bytes.Equal(f, want[i]) {
			t.Fatalf("frame %d differs from what was sent", i)
		}
	}
	settle(t, b, "after all frames")
	p.PostLone(now(), s.Nobody, new([6]uint64), want[0]) // lost or refused
	if p.PostLone(now(), b.Addr(), new([6]uint64), make([]byte, a.MTU()-47)) {
		t.Error("posted a frame longer than the MTU")
	}
}

// head returns the beginning of a frame as the header for PostLone.
func head(f []byte) *[6]uint64 {
	var h [6]uint64
	for i := range h {
		h[i] = binary.LittleEndian.Uint64(f[8*i:])
	}
	return &h
}

// testPeek looks at frames, and then takes them by Pass or by Poll.
func testPeek(t *testing.T, s Suite) {
	a, b := s.Make(t)
	p := b.Caps()
	if p.Peek == nil {
		t.Skip("the driver has no Peek")
	}
	r := rand.New(rand.NewPCG(9, 10))
	Send(t, a, b.Addr(), content(0, 100)) // the path is open when the first frame has arrived
	var in, back Inbox
	Collect(t, b, &in, 1)
	from := a.Addr()
	for i := uint64(1); i < 1000; i++ {
		if p.Peek(from) != nil {
			t.Fatal("Peek shows a frame that has not been sent")
		}
		want := content(i, 1+r.IntN(300))
		Send(t, a, b.Addr(), want)
		f := p.Peek(from)
		for begun := now(); f == nil && now().Sub(begun) < patience; f = p.Peek(from) {
			if a.Flush(now()); s.Late && now().Sub(begun) > time.Millisecond {
				break
			}
		}
		if f == nil && s.Late {
			Collect(t, b, &in, len(in.Frames)+1)
			continue
		}
		if !bytes.Equal(f, want) {
			t.Fatalf("Peek shows % x; expected frame %d, % x", f, i, want)
		}
		if p.Peek(s.Nobody) != nil {
			t.Fatal("Peek shows a frame as from an address that sent none")
		}
		if p.Peek(from); r.IntN(2) > 0 {
			if r.IntN(2) > 0 { // the answer leaves before Pass releases the question
				Send(t, b, from, want)
				Collect(t, a, &back, len(back.Frames)+1)
			}
			p.Pass(now(), len(want))
		} else {
			b.Poll(now(), &in)
		}
	}
	var c link.Counters
	if b.Counters(&c); c.FramesIn != 1000 {
		t.Errorf("%d frames are counted of 1000", c.FramesIn)
	}
	settle(t, b, "after all frames")
}

// testGlance polls as soon as a glance sees a frame.
func testGlance(t *testing.T, s Suite) {
	a, b := s.Make(t)
	c := b.Caps()
	if c.Glance == nil {
		t.Skip("the driver has no Glance")
	}
	Send(t, a, b.Addr(), content(0, 100)) // the path is open when the first frame has arrived
	var in Inbox
	Collect(t, b, &in, 1)
	for i := uint64(1); i < 1000; {
		if c.Glance() {
			t.Fatal("there is a frame that has not been sent")
		}
		burst := 1 + int(i%3)
		for range burst {
			trySend(a, b.Addr(), content(i, 50))
			i++
		}
		a.Flush(now())
		for begun := now(); !c.Glance() && now().Sub(begun) < patience; {
			if s.Late {
				break
			}
		}
		Collect(t, b, &in, int(i))
	}
	for i, f := range in.Frames[1:] {
		if !bytes.Equal(f, content(uint64(i+1), 50)) {
			t.Fatalf("frame %d differs from what was sent", i+1)
		}
	}
}

// testSleep sends frames before and during a sleep.
func testSleep(t *testing.T, s Suite) {
	a, b := s.Make(t)
	c := b.Caps()
	if c.Fd == nil && c.Notify == nil {
		t.Skip("the driver has neither Fd nor Notify")
	}
	if (c.Sleep == nil) != (c.Awake == nil) {
		t.Fatal("the driver has one of Sleep and Awake")
	}
	woken := make(chan bool, 1)
	if c.Notify != nil {
		c.Notify(func() {
			select {
			case woken <- true:
			default:
			}
		})
	}
	var in Inbox
	Send(t, a, b.Addr(), content(0, 100)) // the path is open when the first frame has arrived
	Collect(t, b, &in, 1)
	for i := range 100 {
		if c.Sleep != nil {
			// Sleep may report a frame once more.
			for begun := now(); c.Sleep() && now().Sub(begun) < patience; {
				b.Poll(now(), &in)
			}
		}
		for len(woken) > 0 {
			<-woken
		}
		Send(t, a, b.Addr(), content(uint64(i), 100))
		switch {
		case c.Notify != nil:
			select {
			case <-woken:
			case <-time.After(patience):
				t.Fatal("Notify has not called back")
			}
		case !readable(t, c.Fd(), patience):
			t.Fatal("the descriptor has not become readable")
		}
		if c.Awake != nil {
			c.Awake()
		}
		Collect(t, b, &in, i+2)
	}
}

func testDoubt(t *testing.T, s Suite) {
	a, b := s.Make(t)
	c := a.Caps()
	if c.DoubtBatches == nil {
		t.Skip("the driver has no DoubtBatches")
	}
	var in Inbox
	for i := range 5 {
		for range 10 {
			trySend(a, b.Addr(), content(uint64(i), 300))
		}
		c.DoubtBatches(b.Addr())
		a.Flush(now())
		Collect(t, b, &in, 10*(i+1))
	}
}

// Keeps tests that a wrapper has exactly the capabilities of the driver below.
func Keeps(t *testing.T, wrap func(link.Driver) link.Driver) {
	t.Helper()
	for _, can := range []bool{false, true} {
		var d capable
		if c := reflect.ValueOf(&d.caps).Elem(); can {
			for i := range c.NumField() {
				c.Field(i).Set(reflect.MakeFunc(c.Field(i).Type(),
					func([]reflect.Value) []reflect.Value { panic("called") }))
			}
		}
		got := reflect.ValueOf(wrap(&d).Caps())
		for i := range got.NumField() {
			if got.Field(i).IsNil() == can {
				t.Errorf("%s: the driver below has it: %v; the wrapper: %v", got.Type().Field(i).Name, can, !can)
			}
		}
	}
}

// capable is a driver with given caps. Its other functions are not called.
type capable struct {
	link.Driver
	caps link.Caps
}

func (d *capable) MTU() int        { return 1472 }
func (d *capable) Caps() link.Caps { return d.caps }
func (d *capable) Close() error    { return nil }
