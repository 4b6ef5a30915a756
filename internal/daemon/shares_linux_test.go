package daemon

import (
	"testing"

	"github.com/weftnet/weft/internal/clock"
)

// A library and the program that uses it may share one segment without knowing of each other.
func TestAProcessThatSharesASegmentTwiceKeepsItUntilItLetsGoTwice(t *testing.T) {
	b := newBench(t)
	s := b.session(0)
	has := func(what string, shares int, bytes int64) {
		t.Helper()
		b.d.segments.making.Lock()
		defer b.d.segments.making.Unlock()
		b.d.loop.Do(func(clock.Time) {
			n := 0
			if g := b.d.segments.all[2]; g != nil {
				n = g.users[s]
			}
			if n != shares || s.bytes != bytes {
				t.Errorf("%s: the process shares it %d times, and %d bytes count; expected %d and %d", what, n, s.bytes, shares, bytes)
			}
		})
	}
	for range 2 { // the second share is like the first
		_, leave, err := b.parts[0].Share(t.Context(), 2, 200)
		if err != nil {
			t.Fatal(err)
		}
		has("shared", 1, 200)
		_, again, err := b.parts[0].Share(t.Context(), 2, 200)
		if err != nil {
			t.Fatal(err)
		}
		has("shared twice", 2, 400)
		if err := leave(t.Context()); err != nil {
			t.Error(err)
		}
		has("left once", 1, 200)
		if err := again(t.Context()); err != nil {
			t.Error(err)
		}
		has("left twice", 0, 0)
	}
}
