package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// A message for a library that its receiver has never used is refused by every way, if its sender
// wants to know the outcome. Once the library has posted a receive, the message waits for that or
// the next one like any other.
func TestAMessageForALibraryThatIsNotInUseIsRefused(t *testing.T) {
	const port = vni.LibraryPorts + 0x41
	for place, name := range map[int]string{0: "one NIC", 1: "two NICs"} {
		for _, length := range []int{0, 100, 5000, limits.StagedMessage, 100_000} {
			t.Run(name, func(t *testing.T) {
				f := newFabricOf(t, 2, false)
				a, b := f.rider(0, "a/0"), f.rider(place, "b/0")
				f.met(a, b)
				send := func(port, tag uint64, flags uint32) int {
					return a.send("b/0", port<<vni.PortShift|tag, flags, pattern(length, byte(tag)))
				}
				refused := func(port uint64) {
					t.Helper()
					if c := a.finish(false, send(port, 7, vni.WantAccept)); c.Status != vni.StatusNoReceiver {
						t.Errorf("a message of %d bytes for port %#x ended with %v; want %v", length, port, c.Status, vni.StatusNoReceiver)
					}
				}
				refused(port)
				refused(port)
				refused(vni.LibraryPorts)
				refused(0xffff)
				f.run(time.Millisecond)
				if p := b.e.process(b.slot); p.stray.n != 0 || p.staged != 0 {
					t.Fatalf("%d messages wait for a receive, in %d bytes", p.stray.n, p.staged)
				}
				if n := b.e.Count(vni.NICRefusedNoReceiver); place == 1 && n != 4 {
					t.Errorf("%d messages are counted as refused; want 4", n)
				}

				buf := make([]byte, length)
				// With another tag: the library is there.
				r := b.recv("", port<<vni.PortShift|1, 0, buf)
				f.run(time.Millisecond)
				s := send(port, 7, vni.WantAccept)
				f.run(10 * time.Millisecond)
				b.wantReceived(b.recv("", port<<vni.PortShift|7, 0, buf), buf, pattern(length, 7))
				a.wantSent(s)
				refused(port + 1)
				refused(port - 64)
				// A user's port: the message may be early.
				for _, other := range []uint64{0, 1, vni.LibraryPorts - 1} {
					s := send(other, 7, vni.WantAccept)
					f.run(10 * time.Millisecond)
					b.wantReceived(b.recv("", other<<vni.PortShift|7, 0, buf), buf, pattern(length, 7))
					a.wantSent(s)
				}
				s = send(port, 1, 0)
				b.wantReceived(r, buf, pattern(length, 1))
				a.wantSent(s)
				s = send(port+2, 9, 0) // its sender has not asked for the outcome
				f.run(10 * time.Millisecond)
				b.wantReceived(b.recv("", uint64(port+2)<<vni.PortShift|9, 0, buf), buf, pattern(length, 9))
				a.wantSent(s)
				a.exit()
				b.exit()
				f.noLeaks()
			})
		}
	}
}

// RecvAlloc posts no receive before a message has arrived, and a library may only probe.
func TestALibraryThatHasProbedIsInUse(t *testing.T) {
	const tag = (vni.LibraryPorts+0x42)<<vni.PortShift | 7
	// A probe that waits, and one that does not.
	for most, ended := range []vni.Status{vni.StatusOK, vni.StatusWithdrawn} {
		eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
			probe := b.probe(vni.CodeProbe, vni.ReceiveContext{Tag: tag, Most: uint64(most)})
			s := a.send("b/0", tag, vni.WantAccept, []byte("x"))
			if c := b.finish(true, probe); c.Status != ended {
				t.Fatalf("the probe ended with %v, want %v", c.Status, ended)
			}
			f.run(10 * time.Millisecond)
			b.finish(true, b.recv("", tag, 0, make([]byte, 1)))
			a.wantSent(s)
		})
	}
}

func TestALibraryWhoseMessagesWereAllMetIsInUse(t *testing.T) {
	const tag = (vni.LibraryPorts+0x43)<<vni.PortShift | 7
	f := newFabricOf(t, 2, false)
	a, b := f.riders()
	if !a.post(b.name, tag, []byte("met")) {
		t.Fatal("the message is refused")
	}
	buf := make([]byte, 3)
	if _, ok := b.meet(a.name, tag, false, buf); !ok || string(buf) != "met" {
		t.Fatalf("met %q", buf)
	}
	s := a.send("b/0", tag, vni.WantAccept, []byte("x"))
	f.run(10 * time.Millisecond)
	b.wantReceived(b.recv("", tag, 0, buf), buf, []byte("x"))
	a.wantSent(s)
}
