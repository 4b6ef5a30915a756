package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// hostileMember is a NIC that has the fabric key and a trusted key, and keeps to no rule. Its
// victim is b, which has a session with a at the same time.
type hostileMember struct {
	w       *world
	a, b, c *node // c is the regular part of the hostile NIC
	gate    *seal.Gate
}

func newHostileMember(t *testing.T) *hostileMember {
	w := newWorld(t, 1, weather{})
	h := &hostileMember{w: w, gate: seal.NewGate([]trust.FabricKey{testFabric}, secret.Seeded(9))}
	h.a, h.b, h.c = w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil)), w.add(3, sealAs(3, nil))
	for _, n := range []*node{h.a, h.c} {
		n.open(h.b).Connect(w.now)
		n.wake()
	}
	w.run(20 * time.Millisecond)
	if !h.a.open(h.b).Up() || !h.c.open(h.b).Up() {
		t.Fatal("no sessions")
	}
	return h
}

// handshake sends a frame with good MACs around any body.
func (h *hostileMember) handshake(k wire.Kind, index uint32, body []byte) {
	b := make([]byte, wire.OuterLen+len(body)+2*wire.MACLen)
	if k == wire.KindHello {
		index = 0
	}
	wire.Outer{Kind: k, Flags: wire.FlagSealed, Index: index, Counter: 1000}.Put(b)
	copy(b[wire.OuterLen:], body)
	h.b.m.Receive(h.w.now, h.c.addr, b[:h.gate.Sign(b, wire.OuterLen+len(body), 0, nil)])
}

// hello sends a Hello whose Noise message is good, and whose payload is arbitrary.
func (h *hostileMember) hello(t *testing.T, pattern uint8, payload []byte) {
	key := h.b.cfg.Security.Key.Public()
	peer := &key
	if pattern == wire.PatternXX {
		peer = nil
	}
	hs := seal.Initiate(seal.NewIdentity(h.c.cfg.Security.Key), peer,
		seal.Options{Psk: h.gate.Psk(0), Prologue: []byte("weft"), Random: secret.Seeded(7).Reader(secret.Handshake)})
	noise, err := hs.Write(payload)
	if err != nil {
		t.Fatal(err)
	}
	index := uint32(5)
	if hello, err := wire.ParseHello(payload); err == nil {
		index = hello.Index
	}
	f := wire.Handshake{Pattern: pattern, Message: 1, Index: index, MinVersion: 1, MaxVersion: 1, Noise: noise}
	body := make([]byte, f.Len())
	f.Put(body, len(body))
	h.handshake(wire.KindHello, 0, body)
}

// sealed sends a frame of the session with any body.
func (h *hostileMember) sealed(k wire.Kind, clear bool, body []byte) {
	s := h.c.m.Endpoint(2).live
	if s == nil {
		return
	}
	o := s.packets.next(k)
	b := make([]byte, wire.OuterLen+len(body)+wire.TagLen)
	n := wire.OuterLen
	if clear && k == wire.KindData && len(body) >= wire.ClearLen-wire.OuterLen {
		o.Flags |= wire.FlagClear
		n = wire.ClearLen
	}
	o.Put(b)
	copy(b[wire.OuterLen:], body)
	s.sealed.out.Key.Seal(b, n, wire.OuterLen+len(body), nil, o.Counter)
	h.b.m.Receive(h.w.now, h.c.addr, b)
}

// FuzzHostileMember lets a NIC of the fabric, which has proved its key, send anything: bodies of
// handshakes, payloads of good Noise messages, and bodies of sealed frames. Nothing may crash,
// the victim's memory stays bounded, and its session with another NIC carries a message
// afterwards.
func FuzzHostileMember(f *testing.F) {
	noise := make([]byte, 192)
	for _, h := range []wire.Handshake{
		{Pattern: wire.PatternXX, Message: 1, Index: 9, MinVersion: 1, MaxVersion: 1, Noise: noise},
		{Pattern: wire.PatternIK, Message: 1, Index: 9, MinVersion: 1, MaxVersion: 1, Noise: noise},
		{Pattern: wire.PatternXX, Message: 2, Index: 9, MinVersion: 1, MaxVersion: 1, Noise: noise},
		{Pattern: wire.PatternXX, Message: 3, Index: 9, MinVersion: 1, MaxVersion: 1, Noise: noise[:64]},
		{Message: 2, Index: 9, MinVersion: 2, MaxVersion: 3},
	} {
		b := make([]byte, h.Len())
		h.Put(b, len(b))
		f.Add(b, uint8(wire.KindHello))
		f.Add(b, uint8(wire.KindHelloAck))
		f.Add(b, uint8(wire.KindFinish))
	}
	hello := wire.Hello{MinVersion: 1, MaxVersion: 1, Index: 5, NIC: 3, Incarnation: 1 << 63, MTUCommand: 1472, MTUData: 1472, WinCommand: 1, WinData: 1, EchoCounter: 1 << 63}
	b := make([]byte, wire.HelloLen)
	for _, nic := range []uint64{1, 2, 3, 77} {
		hello.NIC = nic
		hello.Put(b)
		f.Add(append([]byte(nil), b...), uint8(wire.KindHello))
	}
	f.Add(make([]byte, wire.CookieLen), uint8(wire.KindCookie))
	for k := wire.KindData; k <= wire.KindRekey; k++ {
		f.Add(make([]byte, 96), uint8(k))
		f.Add([]byte{}, uint8(k))
	}
	for _, message := range []byte{1, 2} {
		r := wire.Rekey{Message: message, Number: 1, Noise: noise[:96]}
		b := make([]byte, 200)
		f.Add(b[:r.Put(b)], uint8(wire.KindRekey))
	}
	chunk := make([]byte, wire.InnerLen+wire.ChunkLen+100)
	inner := wire.Inner{Space: wire.Data, Flags: wire.AckData}
	inner.Put(chunk)
	wire.PutChunk(chunk[wire.InnerLen:], 0, 1, 0, 100)
	f.Add(chunk, uint8(wire.KindData))
	f.Fuzz(meetHostileMember)
}

func meetHostileMember(t *testing.T, input []byte, kind uint8) {
	if len(input) > 1300 {
		return
	}
	h := newHostileMember(t)
	k := wire.Kind(kind % 16)
	if k.OfHandshake() {
		live := h.b.m.Endpoint(3).live.index
		for _, index := range []uint32{live, 1, live ^ 1<<20} {
			h.handshake(k, index, input)
		}
		h.hello(t, wire.PatternXX, input)
		h.hello(t, wire.PatternIK, input)
	} else {
		for i := range 3 {
			h.sealed(k, i == 1, input)
		}
	}
	h.b.wake()
	h.w.run(10 * time.Millisecond)
	if n := len(h.b.m.pending); n > limits.PendingSessions || len(h.b.m.strangers) > n {
		t.Fatalf("%d half-open sessions, and %d strangers", n, len(h.b.m.strangers))
	}
	if n := len(h.b.m.endpoints); n != 2 {
		t.Fatalf("the victim has %d peers", n)
	}
	if len(h.a.downs) > 0 || h.b.m.Endpoint(1).live == nil {
		t.Fatalf("the session of the others has ended: %v", h.a.downs)
	}
	h.c.dead = true
	if !h.a.frag(h.a.open(h.b), wire.Command, "after") {
		t.Fatal("no room for a message")
	}
	h.w.runUntil(5*time.Second, "the message of the others", func() bool { return h.b.got["after"] == 1 })
	if err := h.b.m.Stats().Check(); err != nil {
		t.Fatal(err)
	}
}
