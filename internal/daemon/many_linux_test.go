package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// atOnce runs f for 0 … n−1, at most some of them concurrently, and returns the errors.
func atOnce(n, some int, f func(i int) error) error {
	var all sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, some)
	for range some {
		all.Go(func() {
			var mine error
			for i := range next {
				if err := f(i); err != nil && mine == nil {
					mine = fmt.Errorf("process %d: %w", i, err)
				}
			}
			errs <- mine
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// 1,024 processes attach to one daemon, each sends to its neighbour, and they leave. They are
// eight times as many as the daemon prepares for.
func TestAThousandProcessesAttachToOneDaemon(t *testing.T) {
	const many, some = 1024, 32
	c := configs(t, 1)[0]
	c.Log = "warn"
	run(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	procs := make([]*weft.Process, many)
	names := make([]weft.Name, many)
	for i := range names {
		names[i] = name(t, fmt.Sprintf("many/%d", i))
	}
	begun := time.Now()
	stage := func(what string, f func(i int) error) {
		t.Helper()
		if err := atOnce(many, some, f); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(begun).Round(time.Millisecond))
		begun = time.Now()
	}
	stage("attached", func(i int) (err error) {
		procs[i], err = weft.Attach(ctx, weft.AttachConfig{Socket: c.Socket, Name: names[i]})
		return err
	})
	stage("sent", func(i int) error {
		return procs[i].Send(ctx, names[(i+1)%many], 1, fmt.Append(nil, i))
	})
	stage("received", func(i int) error {
		buf := make([]byte, 8)
		m, err := procs[i].Recv(ctx, weft.AnyProcess, 1, buf)
		from := (i + many - 1) % many
		if err == nil && (m.From != names[from] || string(buf[:m.Len]) != fmt.Sprint(from)) {
			err = fmt.Errorf("%q from %v; expected %d", buf[:m.Len], m.From, from)
		}
		return err
	})
	if _, err := weft.Attach(ctx, weft.AttachConfig{Socket: c.Socket, Name: name(t, "one/0")}); err == nil {
		t.Error("one more is attached than max_processes allows")
	}
	stage("left", func(i int) error { return procs[i].Close() })
	last := mustAttach(t, c, "last/0") // now there is room again
	last.Close()
}

// A daemon refuses a program with more than 64 connections that have not attached. Hundreds of
// goroutines would open more at once.
func TestAProgramAttachesHundredsOfProcessesAtOnce(t *testing.T) {
	const many = 5 * limits.StrangersPerProcess
	c := configs(t, 1)[0]
	c.Log = "warn"
	run(t, c)
	procs := make([]*weft.Process, many)
	if err := atOnce(many, many, func(i int) (err error) {
		procs[i], err = attach(t.Context(), c.Socket, fmt.Sprintf("many/%d", i))
		return err
	}); err != nil {
		t.Error(err)
	}
	for _, p := range procs {
		if p != nil {
			p.Close()
		}
	}
}

// heldBytes returns the bytes of heap and stacks that this program holds.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC() // stacks shrink in the first run, and are freed in the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// An idle VNI costs what `weft nic info` says, and no more than the bound.
func TestAnIdleVNICostsWhatIsStated(t *testing.T) {
	const many = 200
	c := configs(t, 1)[0]
	c.Log = "warn"
	run(t, c)
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	memory := func() *ctl.Memory {
		m, err := conn.NIC(0).Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	used := func(m *ctl.Memory) int64 { return m.Segments[0].InUse }
	before, held := memory(), heldBytes()
	if used(before) != 0 {
		t.Errorf("%d bytes of VNIs that no process uses are in memory", used(before))
	}
	child(t, "crowd", fmt.Sprintf("%d at %s", many, c.Socket))
	var shared, own int64
	var v ctl.VNIs
	// Until the daemon is idle.
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		after := memory()
		shared, own, v = (used(after)-used(before))/many, (heldBytes()-held)/many, after.VNIs
		if shared == v.IdleSharedBytes && own+shared <= v.IdleBytes || time.Now().After(end) {
			break
		}
	}
	t.Logf("an idle VNI: %d bytes shared, %d of the daemon's; stated %d, of which %d shared", shared, own, v.IdleBytes, v.IdleSharedBytes)
	if v.Used != many || v.OnTheFly != many-limits.Processes || v.Idle != 0 {
		t.Errorf("of %d VNIs in use %d are made on the fly, %d are idle", v.Used, v.OnTheFly, v.Idle)
	}
	if shared != v.IdleSharedBytes {
		t.Errorf("%d bytes of a VNI are in memory; stated are %d", shared, v.IdleSharedBytes)
	}
	if own+shared > v.IdleBytes || own+shared < v.IdleBytes*3/4 {
		t.Errorf("an idle VNI costs %d bytes; stated are %d", own+shared, v.IdleBytes)
	}
	if v.IdleBytes > v.IdleBytesLimit {
		t.Errorf("%d bytes are stated; at most %d", v.IdleBytes, v.IdleBytesLimit)
	}
}
