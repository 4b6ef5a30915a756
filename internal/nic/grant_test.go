package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func TestSendersThatStallKeepNobodyElseWaiting(t *testing.T) { // decision 8: overcommit
	f := newFabric(t, 3, fault.Config{})
	a, b, d := f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "d/0")
	f.known("a/0", "b/0", "d/0")
	c := &crafted{t: t, f: f, a: a, b: b, pr: b.e.peerOf(1)}
	f.engines = f.engines[1:] // a's NIC asks, and then sends nothing
	for i := range uint32(6) {
		b.recv("a/0", 1, 0, make([]byte, 1<<20))
		c.request(c.env(1+i, 0, 1), wire.FragmentID(1+i), 1<<20)
	}
	b.e.Poll(f.now)
	if got := b.e.grants.outstanding; got != limits.GrantedBytes || b.e.grants.waiting.n == 0 {
		t.Fatalf("%d bytes are permitted, %d messages wait for permission", got, b.e.grants.waiting.n)
	}
	data, buf := pattern(300_000, 1), make([]byte, 300_000)
	r := b.recv("d/0", 2, 0, buf)
	s := d.send("b/0", 2, 0, data)
	f.until(time.Second, "the message of another", func() bool { return b.done(true, r) })
	b.wantReceived(r, buf, data)
	d.wantSent(s)
	f.run(4 * time.Second) // a's NIC is given up
	if got := b.e.grants.outstanding; got != 0 {
		t.Errorf("%d bytes are still permitted", got)
	}
}

func TestAReplyThatComesTooLateIsNotAccepted(t *testing.T) { // decision 6
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		for _, n := range []int{10, 5000, 50_000} {
			a.wantSent(a.send("b/0", 1, vni.WantAccept, nil))
			if c := a.finish(false, a.send("b/0", 7, vni.IsReply|vni.WantAccept, pattern(n, 1))); c.Status != vni.StatusCancelled {
				t.Errorf("a late reply of %d bytes ended with %v", n, c.Status)
			}
			buf := make([]byte, n)
			b.wantReceived(b.recv("a/0", 1, 0, buf), buf, nil)
			r := b.recv("a/0", 7, vni.IsReply, buf)
			f.settle() // as it would be: posted before the call
			a.wantSent(a.send("b/0", 7, vni.IsReply|vni.WantAccept, pattern(n, 1)))
			b.wantReceived(r, buf, pattern(n, 1))
		}
	})
}
