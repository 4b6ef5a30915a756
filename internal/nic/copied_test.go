package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// Each copy of a message's bytes is counted where it is made (NETSTAR-24). A short message is
// copied into a segment and from there into its frame, a long one straight from its memory. A
// message for which no receive waits is also copied through staging.
func TestEachCopyOfAMessageIsCounted(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(0, "c/0")
	f.known("a/0", "b/0")
	grown := func(what string, n int, to *tester, posted bool, wantOut, wantIn int) {
		t.Helper()
		out, in, staged := a.e.Count(vni.NICCopiedOut), to.e.Count(vni.NICCopiedIn), to.e.Count(vni.NICUnexpected)
		msg, buf := make([]byte, n), make([]byte, n)
		var s, r int
		if posted {
			r = to.recv("a/0", 1, 0, buf)
			f.until(time.Second, "the receive is taken", func() bool { return !to.e.process(to.slot).vni.Pending() })
			s = a.send(to.name.String(), 1, 0, msg)
		} else {
			s = a.send(to.name.String(), 1, 0, msg)
			f.until(time.Second, "it is staged", func() bool { return to.e.Count(vni.NICUnexpected) > staged })
			r = to.recv("a/0", 1, 0, buf)
		}
		to.wantReceived(r, buf, msg)
		a.wantSent(s)
		if out, in = a.e.Count(vni.NICCopiedOut)-out, to.e.Count(vni.NICCopiedIn)-in; out != uint64(wantOut) || in != uint64(wantIn) {
			t.Errorf("%s, %d bytes: %d copied out and %d in; expected %d and %d", what, n, out, in, wantOut, wantIn)
		}
	}
	const short, long = 100, 50_000
	grown("the first, by permission", short, b, true, short, short) // there is no credit yet
	grown("short", short, b, true, 2*short, short)
	grown("short, before its receive", short, b, false, 2*short, 2*short)
	grown("long", long, b, true, long, long)
	grown("to a process of the same NIC", long, c, true, 0, long)
	grown("likewise, short, before its receive", short, c, false, 0, 2*short)
}
