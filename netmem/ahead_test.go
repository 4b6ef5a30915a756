package netmem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weftnet/weft/sim"
)

// aheadOf returns a reader ahead for a client with short pages. At most window pages are in
// flight or have arrived.
func aheadOf(window int) *ahead {
	return &ahead{c: &Client{cfg: ClientConfig{PageBytes: 8}}, window: window, pages: 1000, fetched: map[uint64]*fetched{}, attended: true}
}

// fetches begins a run and returns its pages.
func (a *ahead) fetches(pages ...uint64) (l []*fetched) {
	a.fetch(pages)
	for _, page := range pages {
		l = append(l, a.fetched[page])
	}
	return l
}

// come delivers a page that consists of one byte repeated.
func (a *ahead) come(f *fetched, b byte) {
	copy(f.want.into, bytes.Repeat([]byte{b}, len(f.want.into)))
	a.ended(&f.want, nil)
}

// take takes all of a page.
func (a *ahead) take(f *fetched) (b [8]byte, ok bool) {
	ok = a.taken(f, &want{number: f.want.number, into: b[:]})
	return b, ok
}

func TestMemoryOfWhatWasReadAheadIsUsedAgainWhenAllOfItHasGone(t *testing.T) {
	a := aheadOf(4)
	first := a.fetches(1, 2)
	for i, f := range first {
		a.come(f, byte(i))
	}
	a.take(first[0])
	if second := a.fetches(3, 4); &second[0].want.into[0] == &first[0].want.into[0] {
		t.Error("the memory of a page that is here has been given to another")
	}
	if b, ok := a.take(first[1]); !ok || b[0] != 1 {
		t.Errorf("a page that is here reads as %v, %v", b, ok)
	}
	if third := a.fetches(5, 6); &third[0].want.into[0] != &first[0].want.into[0] {
		t.Error("the memory of pages that have been taken is not used again")
	}
}

func TestAPageThatHasGoneIsNotReadFromWhereAnotherLies(t *testing.T) {
	a := aheadOf(4)
	l := a.fetches(1, 2)
	found := a.find(1) // as a read does that is slower than the next
	a.come(l[0], 1)
	a.come(l[1], 2)
	a.take(l[0])
	a.take(l[1])
	for _, f := range a.fetches(3, 4) {
		a.come(f, 3)
	}
	if b, ok := a.take(found); ok {
		t.Errorf("page 1 has gone, and reads as %v", b)
	}
}

func TestMemoryOfAPageThatIsUnderWayIsNoOthers(t *testing.T) {
	a := aheadOf(4)
	l := a.fetches(1, 2)
	a.forget(1)
	a.come(l[1], 2)
	a.take(l[1])
	if len(a.spare) != 0 {
		t.Error("the memory of a page that was forgotten is given to others while the page is under way")
	}
	a.come(l[0], 1)
	if len(a.spare) != 1 {
		t.Error("the memory of a page that was forgotten is lost when the page has come")
	}
}

func TestAReaderInOrderNeedsLittleMemory(t *testing.T) {
	const pages, window = 512, 32 // the default of ReadAhead
	onServer(t, pages, sim.Faults{}, func(_ context.Context, _ *sim.Fabric, v *Volume) error {
		if _, err := v.WriteAt(pagesOf(pages), 0); err != nil {
			return err
		}
		used := map[*byte]bool{}
		ended := v.ahead.fetching.ended
		v.ahead.fetching.ended = func(w *want, err error) {
			used[&w.into[0]] = true
			ended(w, err)
		}
		got := make([]byte, 4096)
		for i := range uint64(pages) {
			if _, err := v.ReadAt(got, int64(i)*4096); err != nil || !bytes.Equal(got, pageOf(i)) {
				return errors.Join(fmt.Errorf("page %d has other bytes", i), err)
			}
		}
		if len(used) == 0 || len(used) > 3*window {
			t.Errorf("%d pages that were read ahead were in the memory of %d; want %d at most", pages, len(used), 3*window)
		}
		return nil
	})
}
