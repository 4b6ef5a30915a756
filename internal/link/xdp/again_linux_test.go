package xdp_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

// A followed driver is kept attached. mu stands in for the lock of its engine.
type followed struct {
	*xdp.Driver
	mu   *sync.Mutex
	said *[]string
}

// follow keeps a host's driver attached until the test ends.
func follow(t *testing.T, h *testbed.Host, d *xdp.Driver) followed {
	f := followed{d, new(sync.Mutex), new([]string)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		do := func(f2 func()) { f.mu.Lock(); defer f.mu.Unlock(); f2() }
		say := func(text string) { do(func() { *f.said = append(*f.said, text) }) }
		_ = h.Do(func() error { d.Follow(ctx, do, say); return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// polls polls both drivers until is returns true.
func polls(t *testing.T, both []followed, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		for _, f := range both {
			f.mu.Lock()
			f.Awake() // reads the news
			f.Poll(clock.Time(time.Now().UnixNano()), &linktest.Inbox{})
			f.Sleep()
			f.mu.Unlock()
		}
		if is() {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}

// lines returns the texts about a driver.
func (f followed) lines() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(*f.said)
}

// An interface is deleted and made anew with its address, several times. Each time the driver
// reports it once, and frames use the ordinary socket, and then AF_XDP again.
func TestADriverIsAttachedAgainToAnInterfaceThatComesBack(t *testing.T) {
	bed := hostsOf(t, 2)
	var both []followed
	for i := range 2 {
		both = append(both, follow(t, bed.Host(i), listen(t, bed.Host(i), xdp.Config{})))
	}
	a, b := both[0], both[1]
	attached := func() bool { return a.Attached() && b.Attached() }
	for round := 1; round <= 3; round++ {
		pass(t, both, "AF_XDP carries frames", true)
		if err := bed.DeleteCable(); err != nil {
			t.Fatal(err)
		}
		polls(t, both, "the loss is noticed", func() bool { return !a.Attached() && !b.Attached() })
		if err := bed.RenewCable(); err != nil {
			t.Fatal(err)
		}
		polls(t, both, "AF_XDP is back", attached)
		for _, f := range both {
			said := f.lines()
			if len(said) != 2*round || !strings.Contains(said[2*round-2], "lost its interface") || !strings.Contains(said[2*round-1], "AF_XDP is back: AF_XDP on eth0: native") {
				t.Fatalf("round %d: it has said %q", round, said)
			}
		}
	}
	pass(t, both, "AF_XDP carries frames", true)
	if err := a.Chain(nil, 0, 0); err != nil {
		t.Error(err)
	}
}

// The interface returns before its driver looks, under the same number.
func TestADriverIsAttachedAgainToAnInterfaceThatComesBackAtOnce(t *testing.T) {
	bed := hostsOf(t, 2)
	var both []followed
	for i := range 2 {
		both = append(both, follow(t, bed.Host(i), listen(t, bed.Host(i), xdp.Config{})))
	}
	for _, change := range []func() error{bed.DeleteCable, bed.RenewCable} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	polls(t, both, "AF_XDP is back", func() bool { return len(both[0].lines()) == 2 && len(both[1].lines()) == 2 })
	pass(t, both, "AF_XDP carries frames", true)
}

// A driver whose user sleeps while it is attached again must announce frames of the new sockets.
func TestADriverThatSleptIsWokenWhenItsInterfaceIsBack(t *testing.T) {
	bed := hostsOf(t, 2)
	var both []followed
	for i := range 2 {
		both = append(both, follow(t, bed.Host(i), listen(t, bed.Host(i), xdp.Config{})))
	}
	a, b := both[0], both[1]
	pass(t, both, "AF_XDP carries frames", true)
	if err := bed.DeleteCable(); err != nil {
		t.Fatal(err)
	}
	polls(t, both, "the loss is noticed", func() bool { return !a.Attached() && !b.Attached() })
	// polls has put both drivers to sleep.
	if err := bed.RenewCable(); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); !a.Attached() || !b.Attached(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("after a minute AF_XDP is not back")
		}
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		linktest.Send(t, a, b.Addr(), []byte("wake up"))
		a.Poll(clock.Time(time.Now().UnixNano()), &linktest.Inbox{})
		a.mu.Unlock()
		b.mu.Lock()
		announced := b.Announced()
		b.mu.Unlock()
		if announced {
			return
		}
		if time.Now().After(late) {
			t.Fatal("after a minute no frame is announced")
		}
	}
}

// Without its interface a driver uses its ordinary socket, as soon as the address exists.
func TestADriverWithoutItsInterfaceSendsByTheOrdinarySocket(t *testing.T) {
	bed := hostsOf(t, 2)
	var both []followed
	for i := range 2 {
		// No goroutine calls Follow.
		both = append(both, followed{listen(t, bed.Host(i), xdp.Config{}), new(sync.Mutex), new([]string)})
	}
	if err := bed.DeleteCable(); err != nil {
		t.Fatal(err)
	}
	polls(t, both, "the loss is noticed", func() bool { return !both[0].Attached() && !both[1].Attached() })
	for range 3 { // no interface: the frames are only lost
		if b := both[0].Reserve(both[1].Addr()); b != nil {
			both[0].Commit(len(b))
		}
		both[0].Flush(1)
	}
	if err := bed.RenewCable(); err != nil {
		t.Fatal(err)
	}
	pass(t, both, "the ordinary socket carries frames", false)
	if err := both[0].Chain(nil, 0, 0); err == nil || !strings.Contains(err.Error(), xdp.ErrLost.Error()) {
		t.Errorf("chained: %v", err)
	}
}

// pass sends frames both ways until five have arrived each way, and then until a frame takes the
// expected path: AF_XDP or the ordinary socket.
func pass(t *testing.T, both []followed, what string, byXDP bool) {
	t.Helper()
	for i := range both {
		from, to := both[i], both[1-i]
		both[0].mu.Lock()
		both[1].mu.Lock()
		arrives(t, from, to, what)
		both[0].mu.Unlock()
		both[1].mu.Unlock()
		polls(t, both, what, func() bool {
			from.mu.Lock()
			defer from.mu.Unlock()
			var before, after link.Counters
			from.Slow().Counters(&before)
			linktest.Send(t, from, to.Addr(), []byte("which way?"))
			from.Slow().Counters(&after)
			return (after.FramesOut == before.FramesOut) == byXDP
		})
	}
}
