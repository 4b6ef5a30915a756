package capture_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/capture"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/link/udp"
)

// numbered returns a frame of n bytes that carries its number.
func numbered(i, n int) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(i)), bytes.Repeat([]byte{byte(i)}, n-8)...)
}

// inFile fails the test unless the packets of a file are exactly these frames out and these
// frames in, each in order.
func inFile(t *testing.T, file []byte, out, in [][]byte) {
	t.Helper()
	var got [2][][]byte
	packets, _ := read(t, file)
	for _, p := range packets {
		way := 0
		if !p.outbound {
			way = 1
		}
		got[way] = append(got[way], p.payload)
	}
	for way, want := range [][][]byte{out, in} {
		if fmt.Sprint(got[way]) != fmt.Sprint(want) {
			t.Errorf("way %d: %d frames are in the file, or other ones; want %d", way, len(got[way]), len(want))
		}
	}
}

func TestFramesOfPostLoneAndPeekAreInTheFileOnce(t *testing.T) {
	s := mem.NewSwitch(mem.Config{})
	var file bytes.Buffer
	a, b := wrap(t, s.Port(), &file, capture.Config{Inline: true}), s.Port()
	c := a.Caps()
	var in linktest.Inbox
	var out, back [][]byte
	for i := range 60 {
		f := numbered(i, 100)
		var head [6]uint64
		for w := range head {
			head[w] = binary.LittleEndian.Uint64(f[8*w:])
		}
		if !c.PostLone(0, b.Addr(), &head, f[48:]) {
			t.Fatal("PostLone refuses")
		}
		out = append(out, f)
		linktest.Send(t, b, a.Addr(), f)
		back = append(back, f)
		for range i % 3 { // or not at all
			if got := c.Peek(b.Addr()); !bytes.Equal(got, f) {
				t.Fatalf("Peek shows % x", got)
			}
			if c.Peek(mem.Address(77)) != nil {
				t.Fatal("Peek shows a frame of another address")
			}
		}
		if i%3 > 0 && i%2 > 0 {
			c.Pass(0, len(f))
		} else if n, _ := a.Poll(0, &in); n != 1 {
			t.Fatalf("Poll hands over %d frames", n)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	inFile(t, file.Bytes(), out, back)
}

func listen(tb testing.TB) *udp.Driver {
	tb.Helper()
	d, err := udp.Listen(udp.Config{Addr: netip.MustParseAddrPort("127.0.0.1:0"), MTU: 1472})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

func TestRunsAndPostedFramesAreInTheFile(t *testing.T) {
	var files [2]bytes.Buffer
	a, b := wrap(t, listen(t), &files[0], capture.Config{Inline: true}), wrap(t, listen(t), &files[1], capture.Config{Inline: true})
	c := a.Caps()
	var in linktest.Inbox
	var out [][]byte
	for range 20 {
		if c.Post != nil {
			a.Reserve(b.Addr())
			out = append(out, numbered(len(out), 64))
			c.Post(0, out[len(out)-1])
		}
		room := c.ReserveRun(b.Addr(), 1000, 7)
		n := len(room) / 1000
		for range n {
			out = append(out, numbered(len(out), 1000))
			copy(room, out[len(out)-1])
			room = room[1000:]
		}
		c.CommitRun(n)
		a.Flush(0)
		linktest.Collect(t, b, &in, len(out))
	}
	for _, d := range []link.Driver{a, b} {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	inFile(t, files[0].Bytes(), out, nil)
	inFile(t, files[1].Bytes(), nil, in.Frames)
}

func TestAFrameHasTheTimeAtWhichItPassedHoweverLongAgoTheLastPollWas(t *testing.T) {
	for _, l := range []struct {
		name string
		make func(testing.TB) (a, b link.Driver)
	}{
		{"mem", func(testing.TB) (a, b link.Driver) {
			s := mem.NewSwitch(mem.Config{})
			return s.Port(), s.Port()
		}},
		{"udp", func(t testing.TB) (a, b link.Driver) { return listen(t), listen(t) }},
	} {
		t.Run(l.name, func(t *testing.T) {
			var file bytes.Buffer
			var now clock.Time
			below, b := l.make(t)
			a := wrap(t, below, &file, capture.Config{Inline: true, Clock: func() clock.Time { return now }})
			c := a.Caps()
			var in linktest.Inbox
			var want []clock.Time
			passes := func(frames int) {
				for range frames {
					want = append(want, now)
				}
			}
			a.Poll(now, &in)
			now += 1e9
			a.Reserve(b.Addr())
			a.Commit(100)
			passes(1)
			if now += 1e9; c.Post != nil && a.Reserve(b.Addr()) != nil {
				c.Post(0, make([]byte, 100))
				passes(1)
			}
			if now += 1e9; c.PostLone != nil && c.PostLone(0, b.Addr(), new([6]uint64), nil) {
				passes(1)
			}
			if now += 1e9; c.ReserveRun != nil {
				n := len(c.ReserveRun(b.Addr(), 1000, 3)) / 1000
				c.CommitRun(n)
				passes(n)
			}
			a.Flush(0)
			now += 1e9
			linktest.Send(t, b, a.Addr(), make([]byte, 100))
			if c.Peek == nil {
				linktest.Collect(t, a, &in, 1)
			} else if c.Peek(b.Addr()) == nil {
				t.Fatal("Peek shows nothing")
			}
			passes(1)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			packets, _ := read(t, file.Bytes())
			var got []clock.Time
			for _, p := range packets {
				got = append(got, clock.Time(p.at.UnixNano()))
			}
			if !slices.Equal(got, want) {
				t.Errorf("frames are of %v; want %v", got, want)
			}
		})
	}
}
