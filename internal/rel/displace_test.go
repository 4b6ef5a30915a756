package rel

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// displaced starts NIC 3 at the address of NIC 1, which was killed while NIC 2 had a session
// with it, and returns NIC 2. If told is set, NIC 2 knew before that NIC 3 is there.
func displaced(t *testing.T, change func(*Config), told bool) (w *world, b *node) {
	w, a, b, _ := joined(t, change)
	a.dead = true
	w.nodes = w.nodes[1:]
	next := w.add(3, change)
	next.addr = a.addr
	if told {
		b.open(next)
	}
	next.open(b).Connect(w.now)
	next.wake()
	w.run(100 * time.Millisecond)
	return w, b
}

func TestANICAtTheAddressOfAnotherOneDisplacesIt(t *testing.T) {
	for name, change := range linkKinds() {
		for _, told := range []bool{false, true} {
			w, b := displaced(t, change, told)
			old, next := b.m.Endpoint(1), b.m.Endpoint(3)
			if old.Up() || next == nil || !next.Up() || len(b.downs) != 1 || !errors.Is(b.downs[0], ErrDisplaced) {
				t.Errorf("%s, told %v: the old NIC is up: %v; the new one: %+v; ends: %v", name, told, old.Up(), next, b.downs)
			}
			w.check()
		}
	}
}

// A host forges the source of its Hellos. It sees no answer, and so opens no session there.
func TestForgedHellosDisplaceNoNIC(t *testing.T) {
	w, a, b, e := joined(t, nil)
	for i := range uint64(100) {
		b.m.Receive(w.now, a.addr, helloFrame(9, 99, 1000+i, func(h *wire.Hello) { h.Index += uint32(i) }))
		b.wake()
		w.run(10 * time.Millisecond)
	}
	if !a.frag(e, wire.Command, "still here") {
		t.Fatal("no session")
	}
	w.run(5 * time.Second)
	if b.got["still here"] != 1 || len(b.downs) != 0 || !b.m.Endpoint(1).Up() {
		t.Errorf("got %v, ends %v", b.got, b.downs)
	}
	w.check()
}

// Another host has a session from its own address, under any id. The session of NIC 1 stays.
func TestANICElsewhereDisplacesNoNIC(t *testing.T) {
	for name, change := range linkKinds() {
		w, a, b, e := joined(t, change)
		stranger := w.add(3, change)
		stranger.open(b).Connect(w.now)
		stranger.wake()
		w.run(time.Second)
		if !a.frag(e, wire.Command, "still here") {
			t.Fatalf("%s: no session", name)
		}
		w.run(time.Second)
		if b.got["still here"] != 1 || len(b.downs) != 0 || !b.m.Endpoint(3).Up() {
			t.Errorf("%s: got %v, ends %v", name, b.got, b.downs)
		}
		w.check()
	}
}

// linkKinds returns the configurations of a plain and of a sealed link.
func linkKinds() map[string]func(*Config) {
	return map[string]func(*Config){"plain": nil, "sealed": func(c *Config) { sealAs(int(c.NIC), nil)(c) }}
}
