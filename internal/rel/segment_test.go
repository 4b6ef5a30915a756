package rel

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

func TestASegmentInTheWrongStateStopsTheProgram(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "is Queued, not InHotel") {
			t.Errorf("recovered %q", s)
		}
	}()
	g := &segment{state: stateQueued}
	g.become(stateInHotel, stateResend)
}

func TestSegmentListAgreesWithASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l segmentList
		var dumb []*segment
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			g := &segment{frames: rapid.IntRange(1, 50).Draw(t, "frames")}
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				l.push(g)
				dumb = append(dumb, g)
			case 1:
				l.pushFront(g)
				dumb = append([]*segment{g}, dumb...)
			case 2:
				if len(dumb) > 0 {
					i := rapid.IntRange(0, len(dumb)-1).Draw(t, "i")
					l.insert(g, dumb[i])
					dumb = slices.Insert(dumb, i, g)
				}
			case 3:
				if len(dumb) > 0 {
					i := rapid.IntRange(0, len(dumb)-1).Draw(t, "i")
					l.remove(dumb[i])
					dumb = append(dumb[:i:i], dumb[i+1:]...)
				}
			}
			at, frames := l.head, 0
			for i, g := range dumb {
				if at != g || i > 0 && g.prev != dumb[i-1] {
					t.Fatalf("element %d is wrong", i)
				}
				frames += g.frames
				at = at.next
			}
			if at != nil || l.n != frames || len(dumb) > 0 && l.tail != dumb[len(dumb)-1] {
				t.Fatalf("list of %d does not end where it should", len(dumb))
			}
		}
	})
}

func TestBuffersAreReused(t *testing.T) {
	var p segmentPool
	for _, n := range []int{1, 512, 513, 2048, 9000, 40000, wire.MaxRecord} {
		b := p.buffer(n)
		if cap(b) < n || len(b) != 0 {
			t.Fatalf("buffer of %d for %d bytes", cap(b), n)
		}
		p.putBuffer(b)
		if again := p.buffer(n); &again[:1][0] != &b[:1][0] {
			t.Errorf("a buffer of %d bytes was not used again", n)
		}
	}
}

func TestGrowKeepsTheRecordsBefore(t *testing.T) {
	var p segmentPool
	g := &segment{buf: p.buffer(10)}
	var want []byte
	for i := range 30 {
		copy(p.grow(g, 100, 4096), bytes.Repeat([]byte{byte(i)}, 100))
		want = append(want, bytes.Repeat([]byte{byte(i)}, 100)...)
	}
	if !bytes.Equal(g.buf, want) {
		t.Error("records changed when the segment grew")
	}
}

func TestGatherFindsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		f := &Fragment{}
		for range rapid.IntRange(1, 8).Draw(t, "parts") {
			p := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "part")
			f.Parts = append(f.Parts, p)
			all = append(all, p...)
		}
		for range 20 {
			from := rapid.IntRange(0, len(all)).Draw(t, "from")
			to := rapid.IntRange(from, len(all)).Draw(t, "to")
			b := make([]byte, to-from)
			end, rest := f.payload(b, 0, uint64(from), len(b))
			copy(b[end:], rest)
			if !bytes.Equal(b, all[from:to]) {
				t.Fatalf("bytes %d…%d are %x, want %x", from, to, b, all[from:to])
			}
		}
	})
}

func TestFragmentIDsAreNeverZeroAndNeverTwiceAtOnce(t *testing.T) {
	e := &Endpoint{}
	used := map[wire.FragmentID]bool{}
	slots := map[wire.FragmentID]bool{}
	for range limits.ActiveFragments {
		id, ok := e.NewFragment()
		if !ok || id == 0 || used[id] || slots[id%limits.ActiveFragments] {
			t.Fatalf("id %d, ok %v, after %d", id, ok, len(used))
		}
		used[id], slots[id%limits.ActiveFragments] = true, true
	}
	if id, ok := e.NewFragment(); ok {
		t.Fatalf("id %d, though all are in use", id)
	}
	for i := range 1000 {
		var old wire.FragmentID
		for old = range used {
			break
		}
		e.FreeFragment(old)
		delete(used, old)
		id, ok := e.NewFragment()
		if !ok || id == 0 || used[id] || id == old || id%limits.ActiveFragments != old%limits.ActiveFragments {
			t.Fatalf("%d: id %d after %d", i, id, old)
		}
		used[id] = true
	}
}
