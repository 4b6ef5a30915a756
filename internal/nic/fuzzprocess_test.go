package nic

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// FuzzHostileProcess lets a process write anything into the memory that it shares with its NIC, at
// any time. It may harm only operations in which it takes part (decision 10). The engine must not
// panic, keeps its limits, and serves two other processes, whose memory it leaves alone.
func FuzzHostileProcess(f *testing.F) {
	all := make([]byte, 0, 1024)
	for i := range cap(all) {
		all = append(all, byte(i*13+i>>8))
	}
	f.Add(all)
	f.Add(bytes.Repeat([]byte{2, 1, 0, 3, 9, 1, 4, 2, 8}, 60))
	f.Add(bytes.Repeat([]byte{2, 0, 34, 1, 0, 200, 17, 5, 3, 2}, 60))
	f.Fuzz(hostileProcess)
}

func hostileProcess(t *testing.T, script []byte) {
	w := newFabric(t, 2, fault.Config{})
	a, b := w.process(0, "a/0"), w.process(1, "b/0")
	h := newVandal(w, script)
	w.known("a/0", "b/0", "h/0")
	secret := bytes.Repeat([]byte{0x5a}, 4096)
	if _, _, err := a.e.AddRegion(a.slot, secret); err != nil {
		t.Fatal(err)
	}
	for n := 0; len(h.script) > 0 && n < 300; n++ {
		h.act()
		w.step()
		if err := a.e.Limits(); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range []int{10, 5000, 40_000} {
		there, back := make([]byte, n), make([]byte, n)
		r, q := b.recv("a/0", 1, 0, there), a.recv("b/0", 2, 0, back)
		s, u := a.send("b/0", 1, 0, pattern(n, byte(i))), b.send("a/0", 2, 0, pattern(n, byte(i+9)))
		b.wantReceived(r, there, pattern(n, byte(i)))
		a.wantReceived(q, back, pattern(n, byte(i+9)))
		a.wantSent(s)
		b.wantSent(u)
	}
	if !bytes.Equal(secret, bytes.Repeat([]byte{0x5a}, 4096)) {
		t.Fatal("memory of another process was written")
	}
	a.e.TakeDetached()
	unregister(a.e, h.slot)
	buf := make([]byte, 1<<20)
	for p := range 2 { // the messages that it has sent to the others stay theirs
		at := []*tester{a, b}[p]
		w.settle()
		for at.e.process(at.slot).stray.n > 0 {
			at.finish(true, at.recv("", 0, vni.AnyTag, buf))
			w.settle()
		}
	}
	w.noLeaks()
}

// vandal is a process half that follows no rule.
type vandal struct {
	script []byte
	rw     []byte
	seg    *vni.Segment
	v      *vni.Process
	e      *Engine
	slot   uint16
	gen    uint32
	names  [3]vni.Name
}

func newVandal(w *fabric, script []byte) *vandal {
	return newVandalOf(w, "h/0", vni.Geometry{Commands: 32, Contexts: 8, Descriptors: 4, PoolPages: 4}, script)
}

func newVandalOf(w *fabric, name string, g vni.Geometry, script []byte) *vandal {
	rw, ro := g.Sizes()
	h := &vandal{script: script, rw: words(rw), e: w.engines[0]}
	var err error
	if h.seg, err = vni.NewSegment(h.rw, words(ro), g); err != nil {
		w.t.Fatal(err)
	}
	h.v = h.seg.Process()
	for i, n := range []string{name, "a/0", "b/0"} {
		if h.names[i], err = vni.ParseName(n); err != nil {
			w.t.Fatal(err)
		}
	}
	if h.slot, h.gen, err = w.register(h.e, h.names[0], h.seg, func() {}); err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (h *vandal) next() byte {
	if len(h.script) == 0 {
		return 0
	}
	x := h.script[0]
	h.script = h.script[1:]
	return x
}

// number draws a number that has a meaning somewhere.
func (h *vandal) number() uint64 {
	list := [...]uint64{0, 1, 2, 7, 64, 768, 769, 4096, 16384, 20_000, 1 << 20, 1 << 32, limits.MaxRegion, 1 << 63, 1<<64 - 1}
	return list[int(h.next())%len(list)]
}

// act does one thing: it scribbles, or does half of what a correct process half would do.
func (h *vandal) act() {
	switch h.next() % 8 {
	case 0: // a word anywhere
		at := (int(h.next())<<16 | int(h.next())<<8 | int(h.next())) * 8 % len(h.rw)
		binary.LittleEndian.PutUint64(h.rw[at:], h.number())
	case 1: // a byte somewhere in the command queue, the contexts or the doorbells
		at := int(h.next())<<8 | int(h.next())
		h.rw[at%len(h.rw)] = h.next()
	case 2:
		h.e.Ring(h.slot)
	case 3:
		h.post(true)
	default:
		h.post(false)
	}
}

func (h *vandal) post(receive bool) {
	// Its own half fails on what it has scribbled; no engine code runs here.
	defer func() { _ = recover() }()
	codes := [...]vni.Code{vni.CodeSend, vni.CodeSendShort, vni.CodePut, vni.CodeGet, vni.CodeResolve, vni.CodeCancel, vni.CodeSend, vni.CodeReceive, vni.CodeBarrier, vni.CodeRefill,
		vni.CodeMulticast, vni.CodeMulticastShort, vni.CodeSendRun, vni.CodeSendDatagram}
	take, code := h.v.TakeSend, codes[int(h.next())%len(codes)]
	if receive {
		take, code = h.v.TakeReceive, [4]vni.Code{vni.CodeReceive, vni.CodeReceiveDatagram, vni.CodeReceiveRing, vni.CodeProbe}[h.next()%4]
	}
	i, ok := take()
	if !ok || h.next()%16 == 0 {
		i = int(h.next()) % 9
	}
	size := h.number()
	if receive {
		h.v.SetReceive(i%8, &vni.ReceiveContext{Sender: h.names[h.next()%3], Tag: uint64(h.next() % 3), Flags: uint32(h.next()), PoolIndex: int32(h.next()%6) - 1,
			Size: uint32(h.next() % 6), Len: size})
	} else {
		c := vni.SendContext{Receiver: h.names[h.next()%3], Tag: uint64(h.next() % 3), Flags: uint32(h.next() & 47), Token: 1<<16 | uint32(i), PoolIndex: int32(h.next()%6) - 1,
			Size: uint32(h.next() % 6), Len: size}
		if h.next()%4 == 0 {
			c.NIC, c.Slot, c.Gen = uint64(h.next()%4), uint16(h.next()%4), h.gen+uint32(h.next()%2)
			c.Remote = vni.Remote{NIC: uint64(h.next() % 3), Slot: uint16(h.next() % 3), Gen: h.gen, Region: uint32(h.next() % 3), Offset: h.number()}
		}
		h.v.SetSend(i%8, &c)
	}
	if code == vni.CodeMulticast || code == vni.CodeMulticastShort {
		h.list(h.seg.Pool())
		h.list(h.v.Inline(i % 8))
	}
	h.v.SetDescriptors(receive, i%8, []vni.Descriptor{{Region: uint32(h.next() % 2), Offset: h.number(), Len: size}})
	h.v.Post(vni.Command{Code: code, Context: uint16(i), Size: uint32(h.next() % 5)})
	for k := range 8 { // most of the time it reads its doorbells
		if h.next()%4 != 0 && h.v.Doorbell(receive, k) == vni.Done {
			h.v.Release(receive, k)
		}
	}
}

// list writes receivers of a multicast, most of which exist.
func (h *vandal) list(b []byte) {
	for i := range 4 {
		n := &h.names[h.next()%3]
		copy(b[i*vni.ReceiverBytes:], n.App[:])
		binary.LittleEndian.PutUint32(b[i*vni.ReceiverBytes+24:], n.Index)
		b[i*vni.ReceiverBytes] ^= h.next() / 250
	}
}

func TestAProcessThatWasThrownOutCannotRingItselfBack(t *testing.T) { // decision 10
	w := newFabric(t, 1, fault.Config{})
	h := newVandal(w, nil)
	for range 3 {
		h.v.Post(vni.Command{Code: vni.CodeBarrier})
		w.settle()
		h.e.Ring(h.slot)
		h.e.RingAll()
	}
	if d := h.e.TakeDetached(); len(d) != 1 || d[0].Slot != h.slot || h.v.Gone() != vni.StatusDetached {
		t.Fatalf("detached: %v; the process is told %v", d, h.v.Gone())
	}
	if h.e.Listening() {
		t.Error("it is listened to again")
	}
	a := w.process(0, "a/0")
	if c := a.finish(false, a.send("h/0", 1, 0, []byte("x"))); c.Status != vni.StatusProcessGone {
		t.Errorf("a message to it ended with %v", c.Status)
	}
	unregister(h.e, h.slot)
	w.until(time.Second, "its name is free", func() bool { _, ok := h.e.Lookup(h.names[0]); return !ok })
}
