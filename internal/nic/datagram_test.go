package nic

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

func TestADatagramReachesTheServiceThatClaimsIt(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.engines[0], f.engines[1]
	var got [][]byte
	b.ClaimDatagrams(9, func(_ clock.Time, nic uint64, payload []byte) {
		if nic != a.ID() {
			t.Errorf("a datagram came from NIC %d, not from %d", nic, a.ID())
		}
		got = append(got, bytes.Clone(payload))
	})
	want := [][]byte{[]byte("short"), bytes.Repeat([]byte("long"), wire.MaxDatagram/4), {}}
	for _, w := range want {
		copy(a.Datagram(b.ID(), 9, len(w)), w)
	}
	f.until(time.Second, "three datagrams", func() bool { return len(got) == 3 })
	for i, w := range want {
		if !bytes.Equal(got[i], w) {
			t.Errorf("datagram %d came with %d bytes, of %d, or others", i, len(got[i]), len(w))
		}
	}
	if n := b.Count(vni.RelDatagramsReceived); n != 3 || a.Count(vni.RelDatagramsSent) != 3 {
		t.Errorf("%d sent and %d received are counted, want 3", a.Count(vni.RelDatagramsSent), n)
	}
}

func TestDatagramsThatHaveNoServiceOrCannotLeaveAreCounted(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.engines[0], f.engines[1]
	if a.Datagram(b.ID(), 9, 10) == nil {
		t.Fatal("there is no room for one")
	}
	f.until(time.Second, "it has come", func() bool { return b.Count(vni.NICDatagramsUnclaimed) == 1 })
	if a.Datagram(b.ID(), 9, wire.MaxDatagram+1) != nil || a.Count(vni.RelDatagramsRefused) != 1 {
		t.Error("one that is too long can leave, or is not counted")
	}
	if a.Datagram(77, 9, 10) != nil {
		t.Error("there is room for one to a NIC that is not known")
	}
	a.ClaimDatagrams(9, func(clock.Time, uint64, []byte) {})
	defer func() {
		if recover() == nil {
			t.Error("a service has been claimed twice")
		}
	}()
	a.ClaimDatagrams(9, func(clock.Time, uint64, []byte) {})
}
