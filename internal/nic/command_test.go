package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// QNIX-9: Context is an index into a list, and the first one behind its end is as wrong as any
// other.
func TestACommandForAContextThatIsNotThereIsTheEndOfItsProcess(t *testing.T) {
	for _, code := range []vni.Code{vni.CodeSend, vni.CodeReceive} {
		f := newFabric(t, 1, fault.Config{})
		p := f.process(0, "a/0")
		p.post(vni.Command{Code: code, Context: limits.Contexts})
		f.step()
		if p.v.Gone() != vni.StatusDetached {
			t.Errorf("after a %v for context %d of %d the process is %v", code, limits.Contexts, limits.Contexts, p.v.Gone())
		}
	}
}

// QNIX-14: a name leads to the process that has it. A send that names one life of its receiver
// fails when that process has gone.
func TestASendMayInsistOnOneLifeOfItsReceiver(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, former := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("b/0")
	former.exit()
	now := f.process(1, "b/0")
	f.until(limits.FailureTimeout, "the name leads to the second of its processes", func() bool {
		at, ok := a.e.Lookup(now.name)
		return ok && at.Slot == now.slot && at.Gen == now.gen
	})
	for _, c := range []struct {
		gen  uint32
		want vni.Status
	}{{now.gen, vni.StatusOK}, {now.gen + 1, vni.StatusStaleGeneration}, {0, vni.StatusOK}} {
		i := a.start(vni.CodeSend, &vni.SendContext{Receiver: now.name, Gen: c.gen, Tag: 1, Flags: vni.WantNotify}, []byte("x"))
		if got := a.finish(false, i); got.Status != c.want {
			t.Errorf("to generation %d of one with %d: %v; expected %v", c.gen, now.gen, got.Status, c.want)
		}
	}
}

// QNIX-18: a short message lies in its context's region, all of which it may take, and no more.
func TestAShortMessageIsWhatItsRegionHas(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("b/0")
	want, buf := pattern(limits.ShortMessage, 3), make([]byte, limits.ShortMessage)
	for _, n := range []int{0, 1, limits.ShortMessage, limits.ShortMessage + 1} {
		i, _ := a.v.TakeSend()
		copy(a.v.Inline(i), want)
		a.uses[i]++
		a.v.SetSend(i, &vni.SendContext{Receiver: b.name, Tag: 1, Flags: vni.WantNotify, Token: a.uses[i]<<16 | uint32(i), PoolIndex: vni.NoPool, Size: 1, Len: uint64(n)})
		a.post(vni.Command{Code: vni.CodeSendShort, Context: uint16(i)})
		if n > limits.ShortMessage {
			if c := a.finish(false, i); c.Status != vni.StatusBadArgument {
				t.Errorf("a short message of %d bytes ends with %v", n, c.Status)
			}
			continue
		}
		r := b.recv("a/0", 1, 0, buf)
		a.wantSent(i)
		b.wantReceived(r, buf[:n], want[:n])
	}
	f.until(time.Second, "all is let go", func() bool { return a.e.procs.at(a.slot).sched.n == 0 })
}

// QNIX-19, QNIX-20: a receive names its sender by name, or by NIC, slot and generation, or takes
// any; and a tag, or any.
func TestAReceiveWantsWhatItNames(t *testing.T) {
	from := vni.Address{NIC: 9, Slot: 3, Gen: 7}
	name, other := vni.Name{App: [limits.NameBytes]byte{'a'}}, vni.Name{App: [limits.NameBytes]byte{'b'}}
	for what, c := range map[string]struct {
		r    receive
		want bool
	}{
		"its address":         {receive{exact: true, from: from, tags: vni.OneTag(5)}, true},
		"another NIC":         {receive{exact: true, from: vni.Address{NIC: 8, Slot: 3, Gen: 7}, tags: vni.OneTag(5)}, false},
		"another slot":        {receive{exact: true, from: vni.Address{NIC: 9, Slot: 4, Gen: 7}, tags: vni.OneTag(5)}, false},
		"another life":        {receive{exact: true, from: vni.Address{NIC: 9, Slot: 3, Gen: 8}, tags: vni.OneTag(5)}, false},
		"its name":            {receive{sender: name, tags: vni.OneTag(5)}, true},
		"another name":        {receive{sender: other, tags: vni.OneTag(5)}, false},
		"any process":         {receive{tags: vni.OneTag(5)}, true},
		"another tag":         {receive{tags: vni.OneTag(6)}, false},
		"any tag":             {receive{tags: vni.TagsOf(6, true)}, true},
		"a reply to its call": {receive{tags: vni.OneTag(5), reply: true}, false},
	} {
		src := &source{key: sourceKey{nil, from.Slot, from.Gen}, nic: from.NIC, name: name}
		if got := c.r.wants(src, &wire.Envelope{Tag: 5}); got != c.want {
			t.Errorf("one that names %s: %v", what, got)
		}
	}
}
