package netmem

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A write of many pages has helper goroutines, which use the caller's memory until they have
// ended. This also holds if the process ends, because then the call of each helper ends at a
// different time.
func TestAWriteThatEndsWithItsProcessWaitsForAllThatHelp(t *testing.T) {
	nic, err := weft.OpenNIC(t.Context(), weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	for round := range uint32(20) {
		p, err := nic.Attach(t.Context(), weft.Name{App: "client", Index: round})
		if err != nil {
			t.Fatal(err)
		}
		v := &Volume{c: &Client{p: p}, depth: 2}
		var under atomic.Int32
		closed, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_ = v.parallel(t.Context(), 2, func(_ context.Context, i int) error {
				under.Add(1)
				defer under.Add(-1)
				<-closed
				if i > 0 { // whether that is the caller or a helper
					time.Sleep(time.Millisecond)
				}
				return nil
			})
			if n := under.Load(); n > 0 {
				t.Errorf("the write has ended, and has goroutines that help: %d", n)
			}
		}()
		for under.Load() < 2 {
			runtime.Gosched()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		close(closed)
		<-ended
	}
}
