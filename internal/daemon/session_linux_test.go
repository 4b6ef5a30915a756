package daemon

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// bench is a daemon that runs, and two processes attached to it without a process half.
type bench struct {
	d     *Daemon
	parts [2]*ctl.Attachment
	halfs [2]*vni.Process
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOf(t, Config{})
}

// newBenchOf is like newBench, with a configuration. It sets the daemon's socket and address
// itself.
func newBenchOf(t *testing.T, c Config) *bench {
	t.Helper()
	c.Socket, c.Listen = filepath.Join(t.TempDir(), "nic.sock"), "127.0.0.1:0"
	d, err := New(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{d: d}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for i, name := range []string{"a/0", "b/0"} {
		conn, err := ctl.Dial(t.Context(), d.Socket())
		if err != nil {
			t.Fatal(err)
		}
		a, err := conn.Attach(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close(); a.Unmap() })
		seg, err := vni.OpenSegment(a.RW, a.RO)
		if err != nil {
			t.Fatal(err)
		}
		b.parts[i], b.halfs[i] = a, seg.Process()
	}
	return b
}

// session returns the daemon's side of process i.
func (b *bench) session(i int) (s *session) {
	b.d.loop.Do(func(clock.Time) { s = b.d.sessions[b.parts[i].Slot] })
	return s
}

// post posts a command and rings for it.
func (b *bench) post(t *testing.T, i int, c vni.Command) {
	t.Helper()
	if !b.halfs[i].Post(c) {
		t.Fatal("the command queue is full")
	}
	b.d.loop.Do(func(clock.Time) { b.d.engine.Ring(b.parts[i].Slot) })
}

// receive posts a receive into a region, so that the engine holds the region.
func (b *bench) receive(t *testing.T, i int, region uint32, n uint64) int {
	t.Helper()
	p := b.halfs[i]
	ctx, ok := p.TakeReceive()
	if !ok {
		t.Fatal("no receive context")
	}
	p.SetDescriptors(true, ctx, []vni.Descriptor{{Region: region, Flag: vni.DescriptorValid, Len: n}})
	p.SetReceive(ctx, &vni.ReceiveContext{Flags: vni.AnyTag | vni.WantNotify, PoolIndex: vni.NoPool, Size: 1, Len: n})
	b.post(t, i, vni.Command{Code: vni.CodeReceive, Context: uint16(ctx)})
	return ctx
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func TestMemoryInUseIsNotTakenBack(t *testing.T) { // decision 10
	b := newBench(t)
	id, _, mem, err := b.parts[0].Alloc(t.Context(), 8192, false)
	if err != nil {
		t.Fatal(err)
	}
	receive := b.receive(t, 0, id, uint64(len(mem)))
	eventually(t, "the refusal", func() bool { // once the engine has begun with the receive
		return b.d.processes()[0].Posted == 1
	})
	if err := b.parts[0].Free(t.Context(), id); !errors.Is(err, ctl.ErrRegionBusy) {
		t.Fatalf("Free while a receive is posted there: %v", err)
	}
	b.post(t, 0, vni.Command{Code: vni.CodeCancel, Context: uint16(receive), Size: vni.CancelReceive})
	eventually(t, "the end of the receive", func() bool { return b.halfs[0].Doorbell(true, receive) == vni.Done })
	if err := b.parts[0].Free(t.Context(), id); err != nil {
		t.Errorf("Free when the receive has ended: %v", err)
	}
	if err := b.parts[0].Free(t.Context(), id); !errors.Is(err, ctl.ErrNoRegion) {
		t.Errorf("a second Free: %v", err)
	}
	b.d.loop.Do(func(clock.Time) {
		if n := b.d.sessions[b.parts[0].Slot].bytes; n != 0 {
			t.Errorf("%d bytes are counted, and no region is open", n)
		}
	})
}

func TestAFaultInAProcessesMemoryThrowsOutThatProcessOnly(t *testing.T) { // decision 10
	b := newBench(t)
	s := b.session(0)
	// as if its memory could not be provided
	if err := unix.Mprotect(s.vni.rw.mem, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	b.d.loop.Do(func(clock.Time) { b.d.engine.Ring(s.slot) })
	eventually(t, "the end of the process", func() bool { return b.session(0) == nil })
	w := b.parts[0].Waiter(ctl.Hooks{Listening: func() bool { return true }})
	eventually(t, "the end of its connection", w.Gone)
	receive := b.receive(t, 1, 0, 100) // the other is served as before
	b.post(t, 1, vni.Command{Code: vni.CodeCancel, Context: uint16(receive), Size: vni.CancelReceive})
	eventually(t, "the other's completion", func() bool { return b.halfs[1].Doorbell(true, receive) == vni.Done })
}

func TestAFaultInARegionThrowsItsProcessOutAndIsAnAccessToZeros(t *testing.T) { // decision 10
	b := newBench(t)
	id, _, _, err := b.parts[0].Alloc(t.Context(), 8192, false)
	if err != nil {
		t.Fatal(err)
	}
	b.d.loop.Do(func(clock.Time) {
		mem := b.d.sessions[b.parts[0].Slot].regions[id].mem
		if err := unix.Mprotect(mem, unix.PROT_NONE); err != nil {
			t.Error(err)
		} else if mem[5000]++; mem[5000] != 1 {
			t.Errorf("the byte is %d", mem[5000])
		}
	})
	eventually(t, "the end of the process", func() bool { return b.session(0) == nil })
	if b.session(1) == nil {
		t.Error("another process has gone, too")
	}
}

func TestEverythingOfAProcessGoesWithIt(t *testing.T) {
	b := newBench(t)
	for range 3 {
		if _, _, _, err := b.parts[0].Alloc(t.Context(), 4096, false); err != nil {
			t.Fatal(err)
		}
	}
	b.parts[0].Close()
	eventually(t, "its end", func() bool { return b.session(0) == nil })
	eventually(t, "its memory's end", func() bool {
		b.d.mu.Lock()
		defer b.d.mu.Unlock()
		return len(b.d.clients) == 1
	})
	if n := len(b.d.processes()); n != 1 {
		t.Errorf("%d processes are left", n)
	}
}
