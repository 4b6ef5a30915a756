package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

func TestACancelledReceiveEndsThoughItsMessageIsWithdrawn(t *testing.T) { // decision 9
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "app/0"), f.process(1, "app/1")
	f.known("app/0", "app/1")
	buf := make([]byte, 64<<20)
	r := b.recv("", 0, vni.AnyTag, buf)
	s := a.send("app/1", 1, 0, pattern(len(buf), 1))
	f.until(5*time.Second, "the message is matched", func() bool { return b.e.procs.at(b.slot).recvs[r].state == recvMatched })
	b.post(vni.Command{Code: vni.CodeCancel, Context: uint16(r), Size: vni.CancelReceive})
	f.until(5*time.Second, "the Cancel is read", func() bool { return b.e.procs.at(b.slot).recvs[r].recall })
	a.post(vni.Command{Code: vni.CodeCancel, Context: uint16(s), Size: vni.CancelSend})
	if c := a.finish(false, s); c.Status != vni.StatusCancelled {
		t.Fatalf("the send ended with %v", c.Status)
	}
	if c := b.finish(true, r); c.Status != vni.StatusCancelled {
		t.Fatalf("the receive ended with %v", c.Status)
	}
	f.noLeaks()
}
