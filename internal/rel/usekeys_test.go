package rel

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

var (
	nextFabric  = trust.FabricKey{42, 1, 2, 3, 5, 6, 7, 8}
	thirdFabric = trust.FabricKey{43, 9, 9, 3, 5, 6, 7, 8}
)

// sealedPair returns two NICs with the test's fabric key that know one another.
func sealedPair(t *testing.T, seed uint64, wt weather) (w *world, a, b *node, ea, eb *Endpoint) {
	w = newWorld(t, seed, wt)
	a, b = w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	return w, a, b, a.open(b), b.open(a)
}

func TestARotationOfTheFabricKeyEndsNoSession(t *testing.T) {
	w, a, b, ea, eb := sealedPair(t, 1, weather{delay: 50 * time.Microsecond})
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	sent := 0
	for _, keys := range [][]trust.FabricKey{{testFabric, nextFabric}, {nextFabric, testFabric}, {nextFabric}} {
		for _, n := range []*node{a, b} {
			n.m.UseKeys(w.now, keys, nil)
			n.wake()
			sent++
			w.runUntil(time.Second, "room", func() bool { return a.frag(ea, wire.Command, payload(sent, 40)) })
			w.runUntil(time.Second, "the message", func() bool { return b.got[payload(sent, 40)] == 1 })
		}
	}
	if a.ups != 1 || b.ups != 1 || len(a.downs)+len(b.downs) != 0 {
		t.Errorf("sessions have begun %d and %d times, and ended with %v and %v", a.ups, b.ups, a.downs, b.downs)
	}
}

// The keys change in the middle of handshakes, at each step of them, and the frames of both
// handshakes name their keys by an index that has changed.
func TestASessionOpensWhateverTheMomentAtWhichTheKeysChange(t *testing.T) {
	for seed := range uint64(40) {
		w, a, b, ea, eb := sealedPair(t, seed, weather{delay: time.Millisecond, loss: 0.1})
		ea.Connect(w.now)
		if seed%2 == 0 {
			eb.Connect(w.now)
		}
		a.wake()
		b.wake()
		for i, keys := range [][]trust.FabricKey{{testFabric, nextFabric}, {nextFabric, testFabric, thirdFabric}} {
			for k, n := range []*node{a, b} {
				w.run(time.Duration(seed+uint64(i+k)) * 130 * time.Microsecond)
				n.m.UseKeys(w.now, keys, nil)
				n.wake()
			}
		}
		w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
		w.check()
	}
}

// If the key of a handshake is removed, the NIC must begin another handshake.
func TestAHandshakeUnderAKeyThatIsGoneOpensNoSession(t *testing.T) {
	w, a, b, ea, eb := sealedPair(t, 3, weather{delay: time.Millisecond})
	ea.Connect(w.now)
	a.wake()
	w.run(1500 * time.Microsecond) // the Hello has arrived, and its answer has not
	b.m.UseKeys(w.now, []trust.FabricKey{nextFabric}, nil)
	a.m.UseKeys(w.now, []trust.FabricKey{thirdFabric}, nil)
	a.wake()
	b.wake()
	w.run(time.Second)
	if ea.Up() || eb.Up() {
		t.Error("a session has opened between NICs with different fabric keys")
	}
	a.m.UseKeys(w.now, []trust.FabricKey{nextFabric}, nil)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session under the new key", func() bool { return ea.Up() && eb.Up() })
}

func TestTheNextHandshakeShowsTheNewCertificate(t *testing.T) {
	w, a, b, ea, eb := sealedPair(t, 1, weather{delay: 50 * time.Microsecond})
	a.m.UseKeys(w.now, []trust.FabricKey{testFabric}, []byte("a certificate"))
	var shown string
	b.vouch = func(_ uint64, _ trust.PublicKey, certificate []byte) error {
		shown = string(certificate)
		return nil
	}
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	if shown != "a certificate" {
		t.Errorf("the peer has seen the certificate %q", shown)
	}
}

func TestAPlainLinkIgnoresNewKeys(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, nil), w.add(2, nil)
	ea, eb := a.open(b), b.open(a)
	a.m.UseKeys(w.now, []trust.FabricKey{nextFabric}, nil)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	for _, why := range append(a.downs, b.downs...) {
		if errors.Is(why, ErrIdentity) {
			t.Error(why)
		}
	}
}
