package daemon

import (
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A NIC may ask faster than keepers answer. A server that finds too many requests waiting then
// waits itself.
func TestRequestsThatWaitForKeepersAreBounded(t *testing.T) {
	const most = 3
	c := &control{waits: make(chan struct{}, most)}
	var all sync.WaitGroup
	free := make(chan struct{})
	for range most {
		c.apart(&all, func() { <-free })
	}
	byCaller := false
	c.apart(&all, func() { byCaller = true }) // a data race if it is not this goroutine
	if !byCaller {
		t.Errorf("more than %d requests wait apart", most)
	}
	close(free)
	all.Wait()
	done := make(chan struct{})
	c.apart(&all, func() { <-done }) // it would not return
	close(done)
	all.Wait()
}

// A user may ask many times that its own job ends in an hour.
func TestAKeeperThatIsToEndOftenHasOneTimer(t *testing.T) {
	k := &keeper{cmd: exec.Command("/bin/sleep", "600"), gone: make(chan struct{})}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for range 1000 {
		k.killWithin(time.Hour)
	}
	if now := runtime.NumGoroutine(); now > before+100 {
		t.Errorf("%d goroutines; there were %d", now, before)
	}
	k.killWithin(10 * time.Millisecond)
	k.killWithin(time.Hour) // an earlier end is not postponed
	if err := k.cmd.Wait(); err == nil {
		t.Error("the keeper ended by itself")
	}
	k.ended()
}
