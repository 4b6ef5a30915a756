//go:build amd64 || arm64

package nic

import (
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/standin"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// half gives p a region of n bytes as a daemon maps it. Only the first 54 bytes exist.
func (p *describer) half(n int) (id uint32, key uint64, mem *standin.Memory) {
	t := p.f.t
	pages, err := unix.Mmap(-1, 0, 4096+n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	if mem, err = standin.Guard(pages); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mem.Release()
		unix.Munmap(pages)
	})
	region := pages[4096-54:][:n]
	region[0], region[2] = 100, 100 // the lengths of a run of two messages
	if err := unix.Mprotect(pages[4096:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if id, key, err = p.e.AddRegion(p.slot, region); err != nil {
		t.Fatal(err)
	}
	return id, key, mem
}

// If a process's memory cannot be accessed, other processes lose nothing, in any operation of the
// NIC on it: all that they send in the same poll arrives and is acknowledged.
func TestAFaultInMemoryOfAProcessCostsOthersNoMessage(t *testing.T) { // decisions 6 and 10
	type scene struct {
		f      *fabric
		h      *describer // most of its memory does not exist
		region uint32
		key    uint64
		c      *describer // of the other NIC
		d      *tester    // of the other NIC
	}
	send := func(code vni.Code, size uint32, n int) func(*scene) {
		return func(s *scene) {
			there := vni.Remote{NIC: s.c.e.ID(), Slot: s.c.slot, Gen: s.c.gen, Region: s.c.region}
			there.Key = s.c.e.process(s.c.slot).regions[s.c.region].key
			s.h.describe(vni.Command{Code: code, Size: size}, s.region, n, vni.SendContext{Receiver: s.d.name, Tag: 9, Remote: there})
		}
	}
	receive := func(n int) func(*scene) {
		return func(s *scene) {
			i, _ := s.h.v.TakeReceive()
			s.h.v.ClearDescriptors(true, i)
			s.h.v.SetDescriptor(true, i, 0, vni.Descriptor{Region: s.region, Len: uint64(n)})
			s.h.v.SetReceive(i, &vni.ReceiveContext{Tag: 9, Flags: vni.WantNotify, PoolIndex: vni.NoPool, Size: 1, Len: uint64(n)})
			s.h.post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)})
			s.f.run(time.Millisecond)
			s.d.send("h/0", 9, 0, pattern(n, 1))
		}
	}
	remote := func(code vni.Code, n int) func(*scene) {
		return func(s *scene) {
			there := vni.Remote{NIC: s.h.e.ID(), Slot: s.h.slot, Gen: s.h.gen, Region: s.region, Key: s.key}
			s.c.describe(vni.Command{Code: code}, s.c.region, n, vni.SendContext{Remote: there})
		}
	}
	for what, do := range map[string]func(*scene){
		"a short message": send(vni.CodeSend, 1, 100), "a message in pieces": send(vni.CodeSend, 1, 5000), "a long message": send(vni.CodeSend, 1, 100_000),
		"a run": send(vni.CodeSendRun, 2, 204), "a datagram": send(vni.CodeSendDatagram, 1, 1000),
		"a put": send(vni.CodePut, 1, 100), "a long put": send(vni.CodePut, 1, 100_000), "a get": send(vni.CodeGet, 1, 100), "a long get": send(vni.CodeGet, 1, 100_000),
		"the receive of a short message": receive(100), "the receive of pieces": receive(5000), "the receive of a long message": receive(100_000),
		"another's put": remote(vni.CodePut, 100), "another's long put": remote(vni.CodePut, 100_000),
		"another's get": remote(vni.CodeGet, 100), "another's long get": remote(vni.CodeGet, 100_000),
	} {
		t.Run(what, func(t *testing.T) {
			f := newFabric(t, 2, fault.Config{Seed: 1}) // faults without losses
			h, a, c, d := f.describer(0, "h/0", 4096), f.process(0, "a/0"), f.describer(1, "c/0", 100_000), f.process(1, "d/0")
			f.known("h/0", "a/0", "c/0", "d/0")
			buf, ahead := make([]byte, 10), make([]byte, 10)
			pairs := []struct{ from, to *tester }{{a, d}, {d, a}}
			for _, p := range pairs { // the pair of NICs is open
				r := p.to.recv(p.from.name.String(), 0, vni.AnyTag, buf)
				p.from.wantSent(p.from.send(p.to.name.String(), 0, 0, []byte("first")))
				p.to.wantReceived(r, buf, []byte("first"))
			}
			r := d.recv("h/0", 0, vni.AnyTag, buf)
			h.describe(vni.Command{Code: vni.CodeSend}, h.region, 10, vni.SendContext{Receiver: d.name})
			d.finish(true, r)
			d.recv("h/0", 9, 0, make([]byte, 100_000))
			f.run(10 * time.Millisecond)
			region, key, mem := h.half(100_000)
			s := &scene{f, h, region, key, c, d}
			for _, p := range pairs {
				p.from.send(p.to.name.String(), 1, 0, []byte("before"))
			}
			do(s)
			for _, p := range pairs {
				p.from.send(p.to.name.String(), 2, 0, []byte("behind"))
			}
			f.until(time.Second, "the fault", func() bool { return mem.Fault() != 0 })
			f.run(10 * time.Millisecond)
			h.exit()
			for _, p := range pairs {
				for _, want := range []string{"before", "behind"} {
					r := p.to.recv(p.from.name.String(), 0, vni.AnyTag, ahead)
					p.to.wantReceived(r, ahead, []byte(want))
				}
			}
			f.until(time.Second, "all to be acknowledged", func() bool {
				return !slices.ContainsFunc(f.engines, func(e *Engine) bool { return !e.Quiet() })
			})
		})
	}
}
