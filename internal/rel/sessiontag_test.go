package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

func TestBothEndsOfASessionDeriveOneRelayKeyAndTheNextSessionAnother(t *testing.T) {
	for kind, change := range map[string]func(*Config){"plain": nil, "sealed": func(c *Config) {
		c.Security = &Security{Key: trust.PrivateKey{byte(c.NIC), 7}, Fabric: []trust.FabricKey{{1, 2, 3}}}
	}} {
		t.Run(kind, func(t *testing.T) { testRelayKeys(t, change) })
	}
}

func testRelayKeys(t *testing.T, change func(*Config)) {
	w, a, b, e := joined(t, change)
	keys := map[[32]byte]string{}
	agree := func(what string, x, y *Endpoint) {
		t.Helper()
		kx, okx := x.RelayKey()
		ky, oky := y.RelayKey()
		if !okx || !oky || kx != ky {
			t.Fatalf("%s: the keys are %x (%v) and %x (%v)", what, kx, okx, ky, oky)
		}
		if again, _ := x.RelayKey(); again != kx {
			t.Errorf("%s: the key changes from %x to %x within the session", what, kx, again)
		}
		if other := keys[kx]; other != "" {
			t.Errorf("%s has the key of %s", what, other)
		}
		keys[kx] = what
	}
	agree("the first session", e, b.m.Endpoint(1))

	c := w.add(3, change)
	ec := c.open(a)
	ec.Connect(w.now)
	c.wake()
	w.run(time.Second)
	agree("the session of another pair", ec, a.m.Endpoint(3))

	b.restart()
	eb := b.open(a)
	if _, ok := eb.RelayKey(); ok {
		t.Error("there is a key without a session")
	}
	eb.Connect(w.now)
	b.wake()
	w.run(5 * time.Second)
	agree("the next session", e, eb)
	w.check()
}

// Each number that the two ends have drawn changes the key.
func TestEveryNumberOfASessionIsPartOfItsRelayKey(t *testing.T) {
	_, _, _, e := joined(t, nil)
	s := e.live
	before, _ := e.RelayKey()
	for what, change := range map[string]func(){
		"our cookie":            func() { s.packets.cookies.ours++ },
		"the peer's cookie":     func() { s.peer.Cookie++ },
		"our first command":     func() { s.first[wire.Command]++ },
		"our first data":        func() { s.first[wire.Data]++ },
		"the peer's first data": func() { s.peer.FirstData++ },
		"its first command":     func() { s.peer.FirstCommand++ },
	} {
		change()
		s.relayKey = relayKey{}
		after, _ := e.RelayKey()
		if after == before {
			t.Errorf("%s is not part of the key", what)
		}
		before = after
	}
}
