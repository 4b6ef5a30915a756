package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Records overtake one another, so a process may be known as a member of a group before its claim
// to its name has arrived. If a member then sends to it by the name that the group has given, the
// send must not fail with "name unknown".
func TestAMemberWhoseClaimIsStillUnderWayCanBeSentTo(t *testing.T) {
	const loss = "until its NIC is lost"
	for _, end := range []string{"until the claim comes", "until its end comes", loss} {
		f := newFabric(t, 2, fault.Config{})
		a := f.process(0, "a/0")
		name, err := vni.ParseName("b/0")
		if err != nil {
			t.Fatal(err)
		}
		e, pr := a.e, a.e.peerOf(2)
		// The address that it will have.
		at := vni.Address{NIC: 2, Slot: 1, Gen: f.engines[1].procs.gens[1] + 1}
		e.groups.News(&pr.groups, news(wire.TableJoin, 1, name, at.Slot, at.Gen, 1, 2))
		s := a.send("b/0", 1, 0, []byte("member"))
		f.run(time.Second)
		if a.done(false, s) {
			t.Fatalf("%s: the send ended with %v", end, a.finish(false, s).Status)
		}
		want := vni.StatusNameUnknown
		switch end {
		case "until the claim comes":
			want = vni.StatusOK
			p := f.process(1, "b/0")
			buf := make([]byte, 6)
			defer p.wantReceived(p.recv("a/0", 1, 0, buf), buf, []byte("member"))
		case "until its end comes":
			e.tableRecord(pr, nameRecord(tableEnd, at.Slot, at.Gen, name, 0))
		case loss:
			f.engines = f.engines[:1]
		}
		if c := a.finish(false, s); c.Status != want {
			t.Errorf("%s: the send ended with %v, want %v", end, c.Status, want)
		}
		if _, due := e.names.Due(name); due {
			t.Errorf("%s: the name is still waited for", end)
		}
	}
}
