package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
)

// The first messages wait until their receiver's name is known. A message that is posted at that
// moment must not overtake them.
func TestMessagesThatWaitForANameAreNotOvertaken(t *testing.T) { // decision 5
	const messages = 30
	f := &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}
	for id := range uint64(2) {
		f.addNIC(id+1, 1, fault.Config{})
	}
	a := f.process(0, "a/0")
	if err := f.engines[1].AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	if err := f.engines[0].AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	b := f.claim(1, "b/0")
	var received []int
	for range messages {
		received = append(received, b.recv("", 0, vni.AnyTag, make([]byte, 8)))
	}
	waited := false
	for tag := range uint64(messages) {
		a.send("b/0", tag, 0, []byte("message"))
		waited = waited || f.engines[0].waiting.n > 0
		f.step()
	}
	for tag, r := range received {
		if c := b.finish(true, r); c.Status != vni.StatusOK || c.Tag != uint64(tag) {
			t.Fatalf("receive %d ended with %v and message %d", tag, c.Status, c.Tag)
		}
	}
	if !waited || f.engines[0].waiting.n > 0 {
		t.Error("no message had to wait: this test tests nothing")
	}
}
