package nic

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// bystander is a host without a NIC: it counts the frames that are sent to it.
type bystander struct {
	port   *mem.Port
	bytes  int
	frames int
	most   int // bytes of the longest frame
}

func (b *bystander) Receive(_ clock.Time, _ link.Addr, frame []byte) {
	b.bytes, b.frames, b.most = b.bytes+len(frame), b.frames+1, max(b.most, len(frame))
}

func (b *bystander) ReceiveRun(now clock.Time, from link.Addr, frames []byte, size int) {
	link.Each(b, now, from, frames, size)
}

// nodeRecord returns a record that announces a NIC at an address.
func nodeRecord(id uint64, at netip.AddrPort) wire.Record {
	b := make([]byte, 32)
	b[0] = tableNode
	binary.LittleEndian.PutUint16(b[4:], at.Port())
	ip := at.Addr().As16()
	copy(b[8:], ip[:])
	binary.LittleEndian.PutUint64(b[24:], id)
	return inTable(b)
}

// liar makes a fabric in which NIC 3 tells NIC 1 of 5,000 NICs that do not exist, at the addresses
// that at returns.
func liar(t *testing.T, at func(i int) netip.AddrPort) (f *fabric, b *bystander) {
	const phantoms = 5000
	f = newFabric(t, 3, fault.Config{})
	b = &bystander{port: f.sw.Port()}
	for i := 0; i < phantoms; {
		if f.engines[2].Utter(1, nodeRecord(1<<40+uint64(i), at(i))) {
			i++
			continue
		}
		f.step()
		b.port.Poll(f.now, b)
	}
	return f, b
}

// This attack worked once: 192 KB of records made 16.9 MB of Hellos to a bystander.
func TestABystanderGetsFewHellosWhateverAPeerTells(t *testing.T) { // limits.HearsayCallsPerHost
	f, b := liar(t, func(int) netip.AddrPort { return mem.Address(4) })
	for range 5000 {
		f.run(10 * time.Millisecond)
		b.port.Poll(f.now, b)
	}
	if most := limits.HearsayCallsPerHost * limits.HearsayHellos; b.frames > most || b.bytes > most*b.most {
		t.Errorf("the bystander got %d frames, %d bytes; expected at most %d frames", b.frames, b.bytes, most)
	}
	if b.frames == 0 {
		t.Error("the bystander was never called: this test shows nothing")
	}
	e := f.engines[0]
	if n := e.Count(vni.NICNodesRefused); n < 4000 {
		t.Errorf("%d records are refused", n)
	}
	f.noLeaks()
}

func TestOneTellerCausesABoundedNumberOfHellos(t *testing.T) { // limits.HearsayPerTeller
	f, _ := liar(t, func(i int) netip.AddrPort { return mem.Address(1000 + i) })
	e, most := f.engines[0], 0
	before := e.Count(vni.RelHelloSends)
	for range 300 {
		f.run(time.Second)
		most = max(most, len(e.Nodes()))
	}
	if n := e.Count(vni.RelHelloSends) - before; n > limits.HearsayPerTeller*limits.HearsayTries*limits.HearsayHellos {
		t.Errorf("NIC 1 has sent %d Hellos", n)
	}
	if most > 2+limits.HearsayCallsPerTeller {
		t.Errorf("NIC 1 has %d other NICs in its table", most)
	}
	if n := len(e.Nodes()); n != 2 || e.Count(vni.NICNodesForgotten) == 0 {
		t.Errorf("NIC 1 knows %d other NICs in the end, and has forgotten %d", n, e.Count(vni.NICNodesForgotten))
	}
}

func TestANewcomerJoinsAtOnceThoughAPeerTellsOfPhantoms(t *testing.T) {
	f, _ := liar(t, func(i int) netip.AddrPort { return mem.Address(1000 + i) })
	for id := uint64(9); id < 12; id++ {
		e := f.addNIC(id, 1, fault.Config{})
		if err := e.AddNode(1, mem.Address(1)); err != nil {
			t.Fatal(err)
		}
		f.until(100*time.Millisecond, "the newcomer is up with all", func() bool {
			for _, other := range f.engines {
				if pr := other.peerOf(id); other != e && (pr == nil || !pr.ep.Up()) {
					return false
				}
			}
			return true
		})
		p := f.claim(len(f.engines)-1, "new/"+string(rune('0'+id-9)))
		began := f.now
		f.until(10*time.Second, "its process has its name", p.claimed)
		if d := f.now.Sub(began); p.refused != nil || d > limits.GatherWithin {
			t.Errorf("its process is in after %v: %v", d, p.refused)
		}
	}
}

// Hearsay for which nothing vouches causes no call. A certificate may vouch for a NIC.
func TestHearsayIsNotBelievedUnlessThePeersAreProven(t *testing.T) {
	vouched := mem.Address(7)
	f := newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) {
		c.Belief = Belief{Vouched: func(_ uint64, at link.Addr) bool { return at == vouched }}
	})
	e := f.engines[0]
	for i, at := range []link.Addr{mem.Address(6), vouched} {
		if !f.engines[1].Utter(1, nodeRecord(uint64(50+i), at)) {
			t.Fatal("the record does not leave")
		}
	}
	f.run(10 * time.Millisecond)
	if e.peerOf(50) != nil || e.peerOf(51) == nil {
		t.Errorf("the NIC without a voucher is called: %v; the other one: %v", e.peerOf(50) != nil, e.peerOf(51) != nil)
	}
	if n := e.Count(vni.NICNodesRefused); n != 1 {
		t.Errorf("%d records are refused", n)
	}
}
