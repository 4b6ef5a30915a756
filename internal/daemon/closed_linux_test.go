package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
)

// The segment of a closed process is unmapped, so a look at it ends the program.
func TestAWatcherOfAClosedProcessOnlySaysSo(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	p := mustAttach(t, c[0], "a/0")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	w := p.Watch(p.Address())
	defer w.Close()
	if _, err := w.Next(t.Context()); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("the next event of a closed process: %v; expected %v", err, weft.ErrClosed)
	}
}

// A group keeps a region for its gathers, which only the group can close. A process that is
// closed before its groups frees that region and all its other memory.
func TestAClosedProcessLeavesNoMemoryOfItsGroups(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	shared := func() int {
		b, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(b, []byte("memfd:"))
	}
	part, all := []byte("what a member has"), make([]byte, len("what a member has"))
	before := 0
	for i := range 4 {
		p := mustAttach(t, c[0], fmt.Sprintf("a/%d", i))
		g, err := p.Join(t.Context(), fmt.Sprintf("group%d", i), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(g.Gather(t.Context(), 0, part, all), g.Scatter(t.Context(), 0, all, part), g.AllToAll(t.Context(), part, all)); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := g.Scatter(t.Context(), 0, all, part); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("a scatter of a closed process: %v; expected %v", err, weft.ErrClosed)
		}
		if n := shared(); i == 0 {
			before = n // it includes what the daemon has made beforehand
		} else if n > before {
			t.Errorf("%d mappings of shared memory after process %d; expected the %d after the first", n, i, before)
		}
		defer func() { // late: it releases the region, too
			if err := g.Close(); err != nil {
				t.Errorf("closing a group of a closed process: %v", err)
			}
		}()
	}
}

// Ended takes no lock. Close releases the segment that Ended looks at.
func TestEndedCanBeAskedBesideClose(t *testing.T) {
	c := configs(t, 1)
	run(t, c...)
	for range 20 {
		p := mustAttach(t, c[0], "a/0")
		var o weft.Op
		if err := p.StartRecv(&o, weft.AnyProcess, 1, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		var asking sync.WaitGroup
		for range 16 { // more than there are cores, so that some are preempted in the middle
			asking.Go(func() {
				for !o.Ended() {
				}
			})
		}
		time.Sleep(2 * time.Millisecond)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		asking.Wait()
		if _, err := o.Wait(t.Context()); !errors.Is(err, weft.ErrClosed) {
			t.Errorf("the receive: %v; expected %v", err, weft.ErrClosed)
		}
	}
}
