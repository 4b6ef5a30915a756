package rel

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

var testFabric = trust.FabricKey{1, 2, 3, 4, 5, 6, 7, 8, 9}

// sealAs makes a node's link sealed, with its own key.
func sealAs(i int, change func(*Security)) func(*Config) {
	return func(c *Config) {
		c.Security = &Security{Key: trust.PrivateKey{8: byte(i), 9: 77}, Fabric: []trust.FabricKey{testFabric}}
		if change != nil {
			change(c.Security)
		}
	}
}

// fast makes keys change every few frames.
func fast(s *Security) {
	s.Pace = Pace{Phase: seal.Pace{Frames: 40, Time: 5 * time.Millisecond}, RenewAfter: 50 * time.Millisecond}
}

// uses checks that no key is used twice with one counter.
type uses map[any]map[uint64]bool

func (u uses) witness(t *testing.T) func(any, uint64) {
	return func(key any, counter uint64) {
		if u[key] == nil {
			u[key] = map[uint64]bool{}
		}
		if u[key][counter] {
			t.Errorf("counter %d was used twice with a key", counter)
		}
		u[key][counter] = true
	}
}

func TestKeysChangeWithoutALossOfTrafficOrSession(t *testing.T) {
	for _, c := range []struct {
		weather
		phases, renewals uint64 // at least
	}{
		{weather{delay: 50 * time.Microsecond}, 50, 4},
		{weather{delay: 50 * time.Microsecond, loss: 0.05, dup: 0.05, reorder: 0.2, jitter: time.Millisecond, corrupt: 0.02}, 1, 1},
		{weather{delay: 5 * time.Millisecond, reorder: 0.5, jitter: 20 * time.Millisecond}, 1, 1},
	} {
		for seed := range uint64(5) {
			w := newWorld(t, seed, c.weather)
			used := uses{}
			pace := func(s *Security) { fast(s); s.Witness = used.witness(t) }
			a, b := w.add(1, sealAs(1, pace)), w.add(2, sealAs(2, pace))
			ea, eb := a.open(b), b.open(a)
			ea.Connect(w.now)
			a.wake()
			w.runUntil(5*time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
			for i := range 600 {
				w.runUntil(time.Second, "room", func() bool { return a.frag(ea, wire.Command, fmt.Sprint("there ", i)) })
				if i%3 == 0 {
					w.runUntil(time.Second, "room", func() bool { return b.frag(eb, wire.Data, fmt.Sprint("back ", i)) })
				}
				w.run(time.Millisecond)
			}
			w.run(3 * time.Second)
			if len(a.downs)+len(b.downs) > 0 {
				t.Fatalf("seed %d: sessions ended: %v, %v", seed, a.downs, b.downs)
			}
			if len(b.got) != 600 || len(a.got) != 200 {
				t.Errorf("seed %d: %d of 600 messages came there, and %d of 200 back", seed, len(b.got), len(a.got))
			}
			for _, n := range []*node{a, b} {
				if st := n.m.Stats(); st.Rekeys < c.phases || st.Renewals < c.renewals {
					t.Errorf("seed %d: NIC %d went through %d phases and %d renewals", seed, n.cfg.NIC, st.Rekeys, st.Renewals)
				}
			}
			w.check()
		}
	}
}

func TestASealedPairOpensWithinOneRoundTrip(t *testing.T) {
	w := newWorld(t, 1, weather{delay: time.Millisecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	ea := a.open(b)
	began := w.now
	a.onRoom = func(e *Endpoint) { a.frag(e, wire.Command, "first") }
	if a.frag(ea, wire.Command, "refused") {
		t.Fatal("a message left without a session")
	}
	w.runUntil(time.Second, "the message", func() bool { return b.got["first"] == 1 })
	if took := w.now.Sub(began); took >= 4*time.Millisecond {
		t.Errorf("the first message came after %v, at 1 ms each way; expected less than two round trips", took)
	}
}

func TestOfCrossingHellosOneSessionComes(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, weather{delay: time.Millisecond, loss: 0.1 * float64(seed%3), reorder: 0.3, jitter: 2 * time.Millisecond})
		a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
		ea, eb := a.open(b), b.open(a)
		ea.Connect(w.now)
		eb.Connect(w.now)
		a.wake()
		b.wake()
		w.runUntil(10*time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
		w.run(5 * time.Second)
		if a.ups != 1 || b.ups != 1 || len(a.downs)+len(b.downs) > 0 || ea.Session() != eb.Session() {
			t.Errorf("seed %d: %d and %d sessions opened, ended: %v %v", seed, a.ups, b.ups, a.downs, b.downs)
		}
	}
}

func TestCrossingHandshakesLoseNoMessage(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, seed, weather{delay: time.Millisecond, reorder: 0.5, jitter: 3 * time.Millisecond})
		if seed%4 == 0 {
			w.weather.loss = 0.05
		}
		a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
		if seed%2 == 1 {
			a.open(b).Know(b.cfg.Security.Key.Public())
		}
		sent := 0
		for i := range 40 {
			from, to := a, b
			if w.rng.IntN(2) == 0 {
				from, to = b, a
			}
			if from.frag(from.open(to), wire.Command, fmt.Sprint(i)) {
				sent++
			}
			w.run(time.Duration(w.rng.IntN(600)) * time.Microsecond)
		}
		w.runUntil(10*time.Second, "the session", func() bool { return a.open(b).Up() && b.open(a).Up() })
		w.run(3 * time.Second)
		if len(a.got)+len(b.got) != sent || len(a.downs)+len(b.downs) > 0 {
			t.Errorf("seed %d: %d of %d messages came; ended: %v %v", seed, len(a.got)+len(b.got), sent, a.downs, b.downs)
		}
	}
}

// The NIC with the lower id has its session open, and its last message is lost. The other NIC
// keeps calling.
func TestACallThatCrossesDoesNotEndTheSessionThatItsPeerHasOpened(t *testing.T) {
	for lost := 1; lost <= 3; lost++ {
		w := newWorld(t, 1, weather{delay: time.Millisecond})
		a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
		ea, eb := a.open(b), b.open(a)
		left := lost
		w.filter = func(from, to *node, frame []byte) bool {
			// The last message of the handshake, and the frames after it.
			if from == a && wire.Kind(frame[0]&0xf) != wire.KindHello && left > 0 {
				if wire.Kind(frame[0]&0xf) == wire.KindFinish {
					left--
				}
				return false
			}
			return true
		}
		ea.Connect(w.now)
		eb.Connect(w.now)
		a.wake()
		b.wake()
		w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
		w.run(3 * time.Second)
		if a.ups != 1 || b.ups != 1 || len(a.downs)+len(b.downs) > 0 || left > 0 {
			t.Errorf("%d Finishes lost: %d and %d sessions opened, ended: %v %v", lost, a.ups, b.ups, a.downs, b.downs)
		}
	}
}

func TestAnAnswerIsNotLongerThanItsHello(t *testing.T) {
	certified := func(s *Security) { s.Certificate = make([]byte, 300) }
	for _, c := range []struct{ a, b func(*Security) }{{nil, certified}, {certified, nil}, {certified, certified}, {nil, nil}} {
		w := newWorld(t, 1, weather{})
		a, b := w.add(1, sealAs(1, c.a)), w.add(2, sealAs(2, c.b))
		ea, eb := a.open(b), b.open(a)
		hello, answer := 0, 0
		w.filter = func(from, to *node, frame []byte) bool {
			switch wire.Kind(frame[0] & 0xf) {
			case wire.KindHello:
				hello = len(frame)
			case wire.KindHelloAck:
				answer = len(frame)
			}
			return true
		}
		ea.Connect(w.now)
		a.wake()
		w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
		if answer > hello || answer == 0 {
			t.Errorf("a Hello of %d bytes got an answer of %d", hello, answer)
		}
	}
}

func TestHellosInThePeersNameKeepNobodyFromIt(t *testing.T) {
	w := newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	low, high := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	gate := seal.NewGate([]trust.FabricKey{testFabric}, high.cfg.Secrets)
	n := uint32(0)
	spoof := func() { // a holder of the fabric key, without a trusted key
		n++
		hs := seal.Initiate(seal.NewIdentity(trust.PrivateKey{8: 9, 9: 9}), nil, high.m.handshake(0))
		h := low.m.introduce(&session{index: n})
		h.EchoCounter = uint64(n)
		noise, err := hs.Write(low.m.payload(&h, false))
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, 1400)
		wire.Outer{Kind: wire.KindHello, Flags: wire.FlagSealed, Counter: uint64(n)}.Put(frame)
		body := wire.Handshake{Pattern: wire.PatternXX, Message: 1, Index: n, MinVersion: 1, MaxVersion: 1, Noise: noise}
		body.Put(frame[wire.OuterLen:], 400)
		high.m.Receive(w.now, low.addr, frame[:gate.Sign(frame, wire.OuterLen+400, 0, nil)])
		high.wake()
	}
	eh := high.open(low)
	eh.Connect(w.now)
	high.wake()
	for began := w.now; !eh.Up(); w.run(20 * time.Millisecond) {
		if w.now.Sub(began) > 1900*time.Millisecond {
			t.Fatal("no session came")
		}
		spoof()
	}
}

func TestFramesOfNoSessionCallForFewBytes(t *testing.T) {
	w := newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	a, bystander := w.add(1, sealAs(1, nil)), w.add(2, nil)
	a.open(bystander)
	sent, received := 0, 0
	w.filter = func(_, to *node, frame []byte) bool { received += len(frame); return to != bystander }
	for range 200 { // a minute
		frame := make([]byte, wire.OuterLen+wire.TagLen)
		wire.Outer{Kind: wire.KindAck, Flags: wire.FlagSealed, Index: 1 << 25, Counter: 1}.Put(frame)
		a.m.Receive(w.now, bystander.addr, frame)
		sent += len(frame)
		a.wake()
		w.run(300 * time.Millisecond)
	}
	if received > sent {
		t.Errorf("an address that proves nothing got %d bytes for %d", received, sent)
	}
}

func TestStrangersExchangeNothing(t *testing.T) {
	w := newWorld(t, 1, weather{})
	other := func(s *Security) { s.Fabric = []trust.FabricKey{{9, 8, 7, 6, 5, 4, 3, 2, 1}} }
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, other))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	eb.Connect(w.now)
	a.wake()
	b.wake()
	answered := 0
	w.filter = func(from, to *node, frame []byte) bool {
		if wire.Kind(frame[0]&0xf) != wire.KindHello {
			answered++
		}
		return true
	}
	w.run(10 * time.Second)
	if a.ups+b.ups+answered > 0 {
		t.Errorf("%d and %d sessions, %d answers", a.ups, b.ups, answered)
	}
	for _, n := range []*node{a, b} {
		if st := n.m.Stats(); st.BadMACs == 0 || len(n.strangers) == 0 || n.strangers[0] != ErrFabric {
			t.Errorf("NIC %d counts %d bad MACs, and was told %v", n.cfg.NIC, st.BadMACs, n.strangers)
		}
	}
}

func TestNoPlainFramePassesOnASealedLink(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, nil)
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	eb.Connect(w.now)
	a.wake()
	b.wake()
	w.run(5 * time.Second)
	if a.ups+b.ups > 0 || a.m.Stats().Unsealed == 0 || b.m.Stats().Unsealed == 0 {
		t.Errorf("%d and %d sessions; %d and %d frames were refused", a.ups, b.ups, a.m.Stats().Unsealed, b.m.Stats().Unsealed)
	}
	if a.strangers[0] != ErrPlain || b.strangers[0] != ErrSealed {
		t.Errorf("told %v and %v", a.strangers[0], b.strangers[0])
	}
}

func TestAFabricKeyIsReplacedWhileBothAreTaken(t *testing.T) {
	before, after := testFabric, trust.FabricKey{42, 1, 2, 3, 5, 6, 7, 8}
	keys := func(k ...trust.FabricKey) func(*Security) { return func(s *Security) { s.Fabric = k } }
	for _, c := range []struct {
		a, b []trust.FabricKey
	}{
		{[]trust.FabricKey{after, before}, []trust.FabricKey{before}},
		{[]trust.FabricKey{before}, []trust.FabricKey{after, before}},
		{[]trust.FabricKey{after}, []trust.FabricKey{after, before}},
	} {
		w := newWorld(t, 1, weather{})
		a, b := w.add(1, sealAs(1, keys(c.a...))), w.add(2, sealAs(2, keys(c.b...)))
		ea, eb := a.open(b), b.open(a)
		ea.Connect(w.now)
		a.wake()
		w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
	}
}

func TestASessionOpensByIKWhenTheKeyIsKnown(t *testing.T) {
	w := newWorld(t, 1, weather{delay: time.Millisecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	ea, eb := a.open(b), b.open(a)
	ea.Know(b.cfg.Security.Key.Public())
	finishes, patterns := 0, map[uint8]int{}
	w.filter = func(from, to *node, frame []byte) bool {
		switch wire.Kind(frame[0] & 0xf) {
		case wire.KindFinish:
			finishes++
		case wire.KindHello:
			patterns[frame[wire.OuterLen]]++
		}
		return true
	}
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	if finishes != 0 || patterns[wire.PatternIK] != 1 || patterns[wire.PatternXX] != 0 {
		t.Errorf("%d Finishes, Hellos by pattern: %v", finishes, patterns)
	}
	if !a.frag(ea, wire.Command, "by IK") {
		t.Fatal("no room")
	}
	w.runUntil(time.Second, "the message", func() bool { return b.got["by IK"] == 1 })
}

func TestIKThatStaysUnansweredFallsBackToXX(t *testing.T) {
	w := newWorld(t, 1, weather{delay: time.Millisecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	ea, eb := a.open(b), b.open(a)
	ea.Know(trust.PrivateKey{200}.Public()) // that the peer had before
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
	if b.m.Stats().Handshakes != handshakeTries {
		t.Errorf("%d handshakes did not verify; expected %d", b.m.Stats().Handshakes, handshakeTries)
	}
}

func TestANICWithTheKeyOfAnotherIsNotBelieved(t *testing.T) {
	for _, initiator := range []int{0, 1} {
		w := newWorld(t, 1, weather{})
		a, thief := w.add(1, sealAs(1, nil)), w.add(2, sealAs(3, nil))
		w.keys[2] = trust.PrivateKey{8: 2, 9: 77}.Public() // NIC 2 is another one
		ea, et := a.open(thief), thief.open(a)
		[]*Endpoint{ea, et}[initiator].Connect(w.now)
		a.wake()
		thief.wake()
		w.run(3 * time.Second)
		if a.ups > 0 || a.m.Stats().Identities == 0 {
			t.Errorf("initiator %d: %d sessions opened, %d NICs were refused", initiator, a.ups, a.m.Stats().Identities)
		}
		if err := a.m.Stats().Check(); err != nil {
			t.Errorf("initiator %d: %v", initiator, err)
		}
	}
}

func TestAPeerThatIsTrustedNoMoreIsLostAtTheNextPhase(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, fast)), w.add(2, sealAs(2, fast))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	a.vouch = func(uint64, trust.PublicKey, []byte) error { return fmt.Errorf("revoked") }
	w.runUntil(3*time.Second, "the end", func() bool {
		a.frag(ea, wire.Command, "on")
		w.run(5 * time.Millisecond)
		return !ea.Up()
	})
	if a.downs[0] != ErrIdentity {
		t.Errorf("it ended with %v", a.downs[0])
	}
}

func TestAPeerThatIsTrustedNoMoreCannotStayByNotAnsweringProbes(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, fast)), w.add(2, sealAs(2, fast))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	a.vouch = func(uint64, trust.PublicKey, []byte) error { return fmt.Errorf("expired") }
	// The peer answers neither probes nor offers.
	w.filter = func(from, to *node, frame []byte) bool {
		k := wire.Kind(frame[0] & 0xf)
		return from != b || k != wire.KindProbeReply && k != wire.KindRekey
	}
	w.runUntil(3*time.Second, "the end", func() bool {
		b.frag(eb, wire.Command, "on")
		a.frag(ea, wire.Command, "on")
		w.run(5 * time.Millisecond)
		return !ea.Up()
	})
	if a.downs[0] != ErrIdentity {
		t.Errorf("it ended with %v", a.downs[0])
	}
}

func TestANICWithoutACertificateCallsOneThatHasOne(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, func(s *Security) { s.Certificate = make([]byte, trust.MaxCertificateLen) }))
	ea := a.open(b)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() })
}

func TestTheLongestHandshakeFrameFitsIntoTheLeastMTU(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, length := range []int{0, 1, trust.MaxCertificateLen} {
			w := newWorld(t, 1, weather{})
			short := func(i int) func(*Config) {
				return func(c *Config) {
					sealAs(i, func(s *Security) { s.Certificate = make([]byte, length) })(c)
					c.MTU = max(c.Security.LeastMTU(), limits.LeastFrame)
				}
			}
			a, b := w.add(1, short(1)), w.add(2, short(2))
			ea, eb := a.open(b), b.open(a)
			if known {
				ea.Know(b.cfg.Security.Key.Public())
			}
			ea.Connect(w.now)
			a.wake()
			w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
		}
	}
}

func TestALostHelloCostsNoAnswerItsCertificate(t *testing.T) {
	w := newWorld(t, 1, weather{})
	certified := func(s *Security) { s.Certificate = make([]byte, 300) }
	a, b := w.add(1, sealAs(1, certified)), w.add(2, sealAs(2, certified))
	a.vouch = func(_ uint64, _ trust.PublicKey, certificate []byte) error {
		if len(certificate) == 0 {
			return fmt.Errorf("no certificate")
		}
		return nil
	}
	lost := false
	w.filter = func(_, _ *node, frame []byte) bool {
		first := !lost
		lost = true
		return !first
	}
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
	if len(a.downs) > 0 {
		t.Errorf("ended: %v", a.downs)
	}
}

func TestASealedPairOpensOnANarrowPath(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	w.filter = func(_, _ *node, frame []byte) bool { return len(frame) <= limits.LeastFrame }
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
}

func TestASessionStandsAndFallsWithTheCertificateThatOpenedIt(t *testing.T) {
	w := newWorld(t, 1, weather{})
	with := func(text string) func(*Security) { return func(s *Security) { fast(s); s.Certificate = []byte(text) } }
	a, b := w.add(1, sealAs(1, with("of a"))), w.add(2, sealAs(2, with("with many roles")))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	b.m.security.Certificate = []byte("with few roles")
	talk := func(until func() bool) {
		for i := 0; i < 400 && !until(); i++ {
			a.frag(ea, wire.Command, "on")
			b.frag(eb, wire.Command, "on")
			w.run(5 * time.Millisecond)
		}
	}
	talk(func() bool { return a.m.Stats().Renewals > 1 })
	a.vouch = func(_ uint64, _ trust.PublicKey, certificate []byte) error {
		if string(certificate) == "with many roles" {
			return fmt.Errorf("expired")
		}
		return nil
	}
	talk(func() bool { return !ea.Up() })
	if len(a.downs) == 0 || a.downs[0] != ErrIdentity {
		t.Errorf("the certificate that gave the roles has expired, and sessions ended: %v", a.downs)
	}
}

func TestAPairWithoutAESOnOneSideSealsByChaCha20(t *testing.T) {
	w := newWorld(t, 1, weather{})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, func(s *Security) { s.NoAES = true }))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	if ea.live.sealed.suite != seal.ChaCha || eb.live.sealed.suite != seal.ChaCha {
		t.Errorf("suites %v and %v", ea.live.sealed.suite, eb.live.sealed.suite)
	}
	a.frag(ea, wire.Command, "by ChaCha20")
	w.runUntil(time.Second, "the message", func() bool { return b.got["by ChaCha20"] == 1 })
}

func TestAFloodOfHellosMakesNewcomersProveTheirAddress(t *testing.T) {
	w := newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	b, late := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	gate := seal.NewGate([]trust.FabricKey{testFabric}, b.cfg.Secrets)
	// A holder of the fabric key sends Hellos in the names of many NICs, from addresses that are
	// not its own.
	flood := func() {
		frame := make([]byte, 1400)
		for i := range 400 {
			hs := seal.Initiate(seal.NewIdentity(trust.PrivateKey{8: byte(i), 9: byte(i >> 8), 10: 1}), nil,
				seal.Options{Psk: gate.Psk(0), Prologue: []byte("weft"), Random: b.cfg.Secrets.Reader(6)})
			h := late.m.introduce(&session{index: uint32(i + 1)})
			h.NIC = uint64(1000 + i)
			noise, err := hs.Write(late.m.payload(&h, false))
			if err != nil {
				t.Fatal(err)
			}
			o := wire.Outer{Kind: wire.KindHello, Flags: wire.FlagSealed, Counter: uint64(i + 1)}
			o.Put(frame)
			body := wire.Handshake{Pattern: wire.PatternXX, Message: 1, Index: uint32(i + 1), MinVersion: 1, MaxVersion: 1, Noise: noise}
			body.Put(frame[wire.OuterLen:], body.Len())
			n := gate.Sign(frame, wire.OuterLen+body.Len(), 0, nil)
			b.m.Receive(w.now, address(50+i%100), frame[:n])
		}
	}
	flood()
	flood()
	if b.m.Stats().CookieSends != 0 || b.m.security.load.n > 400 {
		t.Errorf("%d handshakes were worked on in a window", b.m.security.load.n)
	}
	el := late.open(b)
	el.Connect(w.now)
	late.wake()
	w.runUntil(1900*time.Millisecond, "the newcomer's session", func() bool { return el.Up() })
	if b.m.Stats().CookieSends == 0 {
		t.Error("no sender was asked to prove its address")
	}
}

func TestOneAddressThatFloodsLeavesRoomForNewcomers(t *testing.T) {
	w := newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	b, late := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	gate := seal.NewGate([]trust.FabricKey{testFabric}, b.cfg.Secrets)
	// The sender has the fabric key, receives at its address and has the cookie.
	var frames [][]byte
	for i := range 2000 {
		hs := seal.Initiate(seal.NewIdentity(trust.PrivateKey{8: 9, 9: 9}), nil, b.m.handshake(0))
		h := late.m.introduce(&session{index: uint32(i + 1)})
		h.NIC = 1000
		noise, err := hs.Write(late.m.payload(&h, false))
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, 1400)
		wire.Outer{Kind: wire.KindHello, Flags: wire.FlagSealed, Counter: uint64(i + 1)}.Put(frame)
		body := wire.Handshake{Pattern: wire.PatternXX, Message: 1, Index: uint32(i + 1), MinVersion: 1, MaxVersion: 1, Noise: noise}
		body.Put(frame[wire.OuterLen:], 400)
		frame = frame[:gate.Sign(frame, wire.OuterLen+400, 0, nil)]
		answer := b.m.security.gate.Answer(w.now, frame, 0, address(50))
		cookie, ok := gate.Open(&answer, 0, seal.Mac1(frame))
		if !ok {
			t.Fatal("the cookie does not open")
		}
		gate.Sign(frame, wire.OuterLen+400, 0, &cookie)
		frames = append(frames, frame)
	}
	el, sent := late.open(b), 0
	flood := func() bool {
		for range 100 {
			b.m.Receive(w.now, address(50), frames[sent%len(frames)])
			sent++
		}
		w.run(time.Millisecond)
		return el.Up()
	}
	for range 30 {
		flood()
	}
	el.Connect(w.now)
	late.wake()
	for began := w.now; !flood(); {
		if w.now.Sub(began) > 1900*time.Millisecond {
			t.Fatal("the newcomer got no session")
		}
	}
	if b.m.Stats().Refused == 0 {
		t.Errorf("of %d Hellos none was refused", sent)
	}
}

func TestAPeerRoamsWhenItsNewAddressHasAnswered(t *testing.T) {
	w := newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	b.addr = address(77)
	for i := range 20 {
		b.frag(eb, wire.Command, fmt.Sprint("from there ", i))
		a.frag(ea, wire.Command, fmt.Sprint("to there ", i))
		w.run(100 * time.Millisecond)
	}
	w.runUntil(time.Second, "all messages", func() bool { return len(a.got) == 20 && len(b.got) == 20 })
	if ea.Addr() != address(77) || len(a.downs)+len(b.downs) > 0 || a.m.Stats().Roams != 1 {
		t.Errorf("the peer is at %v, it moved %d times; sessions ended: %v %v", ea.Addr(), a.m.Stats().Roams, a.downs, b.downs)
	}
}

func TestAFrameRepeatedFromElsewhereMovesNothing(t *testing.T) {
	w := newWorld(t, 1, weather{delay: 100 * time.Microsecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
	w.run(time.Second)
	bystander := w.add(3, nil)
	received := 0
	var stolen [][]byte
	w.filter = func(from, to *node, frame []byte) bool {
		if to == bystander {
			received += len(frame)
			return true
		}
		if from == b {
			stolen = append(stolen, frame)
			return false // the forger keeps it, and is faster
		}
		return true
	}
	sent := 0
	for i := range 50 {
		b.frag(eb, wire.Command, fmt.Sprint("stolen ", i))
		w.run(time.Millisecond)
		for _, frame := range stolen {
			a.m.Receive(w.now, bystander.addr, frame)
			sent += len(frame)
		}
		stolen = nil
		a.wake()
	}
	w.run(100 * time.Millisecond)
	if ea.Addr() != b.addr || received > sent {
		t.Errorf("the peer is thought to be at %v; the bystander got %d bytes for %d", ea.Addr(), received, sent)
	}
	if received == 0 {
		t.Error("the bystander was never asked")
	}
}

func TestALostFinishIsSentAgain(t *testing.T) {
	w := newWorld(t, 1, weather{delay: time.Millisecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	ea, eb := a.open(b), b.open(a)
	lost := 0
	w.filter = func(from, to *node, frame []byte) bool {
		if wire.Kind(frame[0]&0xf) == wire.KindFinish && lost < 2 {
			lost++
			return false
		}
		return true
	}
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
	if lost != 2 || len(a.downs) > 0 {
		t.Errorf("%d Finishes were lost; ended: %v", lost, a.downs)
	}
}

// A holder of the fabric key that sees the frames of others forges a Finish.
func TestAForgedFinishEndsNoHandshake(t *testing.T) {
	w := newWorld(t, 1, weather{delay: time.Millisecond})
	a, b := w.add(1, sealAs(1, nil)), w.add(2, sealAs(2, nil))
	gate := seal.NewGate([]trust.FabricKey{testFabric}, b.cfg.Secrets)
	w.filter = func(from, to *node, frame []byte) bool {
		if o, _, err := wire.ParseOuter(frame); err == nil && o.Kind == wire.KindFinish {
			h, err := wire.ParseHandshake(frame[wire.OuterLen : len(frame)-2*wire.MACLen])
			if err != nil {
				t.Fatal(err)
			}
			forged := make([]byte, 1400)
			wire.Outer{Kind: wire.KindFinish, Flags: wire.FlagSealed, Index: o.Index, Counter: 9}.Put(forged)
			h.Noise = make([]byte, 64)
			h.Put(forged[wire.OuterLen:], h.Len())
			to.m.Receive(w.now, from.addr, forged[:gate.Sign(forged, wire.OuterLen+h.Len(), 0, nil)])
		}
		return true
	}
	ea, eb := a.open(b), b.open(a)
	ea.Connect(w.now)
	a.wake()
	w.runUntil(1900*time.Millisecond, "the session", func() bool { return ea.Up() && eb.Up() })
}
