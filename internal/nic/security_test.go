package nic

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

var testFabricKey = trust.FabricKey{1, 2, 3, 4, 5, 6, 7, 8}

func testKey(nic uint64) trust.PrivateKey {
	return trust.PrivateKey{8: byte(nic), 9: byte(nic >> 8), 10: 99}
}

// sealedNIC makes the link of a NIC sealed, and unreliable, so that its frames are sealed too.
// Each NIC knows the keys of the first nine. change may be nil.
func sealedNIC(change func(s *rel.Security, p *trust.PolicyConfig)) func(*Config) {
	return func(c *Config) {
		c.Link = promiseless{c.Link.(*mem.Port)}
		c.Security = &rel.Security{Key: testKey(c.ID), Fabric: []trust.FabricKey{testFabricKey}}
		p := trust.PolicyConfig{ID: nicid.ID(c.ID), Key: testKey(c.ID).Public(), Bound: map[nicid.ID]trust.PublicKey{}}
		for id := uint64(1); id < 10; id++ {
			p.Bound[nicid.ID(id)] = testKey(id).Public()
		}
		if change != nil {
			change(c.Security, &p)
		}
		policy, err := trust.NewPolicy(p)
		if err != nil {
			panic(err)
		}
		c.Trust = policy
		c.WallSeconds = morning
	}
}

// strangers makes NICs on one switch, the second of which calls the first. It does not wait until
// they know each other.
func strangers(t *testing.T, a, b func(*Config)) *fabric {
	f := &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}
	for i, change := range []func(*Config){a, b} {
		f.addNIC(uint64(i+1), 1, fault.Config{}, change)
	}
	if err := f.engines[1].AddNode(1, mem.Address(1)); err != nil {
		t.Fatal(err)
	}
	return f
}

// up reports whether two NICs have a session.
func (f *fabric) up() bool {
	a, b := f.engines[0].peerOf(2), f.engines[1].peerOf(1)
	return a != nil && b != nil && a.ep.Up() && b.ep.Up()
}

// runFor advances the time.
func (f *fabric) runFor(d time.Duration) {
	end := f.now.Add(d)
	f.until(d+time.Second, "time passes", func() bool { return f.now >= end })
}

func TestSealedNICsCarryMessages(t *testing.T) {
	f := newWideFabric(t, 1472, 2, fault.Config{}, sealedNIC(nil))
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	for _, n := range []int{5, 700, 100_000} {
		data, buf := pattern(n, 1), make([]byte, n)
		r := b.recv("a/0", 1, 0, buf)
		a.wantSent(a.send("b/0", 1, 0, data))
		b.wantReceived(r, buf, data)
	}
	if !a.e.peerOf(2).ep.Sealed() || a.e.peerOf(2).proved.Key != testKey(2).Public() {
		t.Errorf("the session is sealed: %v; the peer has proved %v", a.e.peerOf(2).ep.Sealed(), a.e.peerOf(2).proved.Key)
	}
}

func TestAHelloOfAnotherFabricIsCountedAndNotAnswered(t *testing.T) {
	other := func(s *rel.Security, _ *trust.PolicyConfig) { s.Fabric = []trust.FabricKey{{9, 9, 9}} }
	f := strangers(t, sealedNIC(nil), sealedNIC(other))
	f.runFor(3 * time.Second)
	if a := f.engines[0]; f.up() || a.Count(vni.DropMAC) == 0 || a.Count(vni.RelHelloSends) != 0 {
		t.Errorf("%d hellos of a stranger were dropped, and %d were answered", a.Count(vni.DropMAC), a.Count(vni.RelHelloSends))
	}
}

func TestAPlainFrameOnASealedLinkIsCountedAndNotAnswered(t *testing.T) {
	plain := func(c *Config) { c.Link = promiseless{c.Link.(*mem.Port)} }
	for _, sealedFirst := range []bool{true, false} {
		a, b := sealedNIC(nil), plain
		if !sealedFirst {
			a, b = b, a
		}
		f := strangers(t, a, b)
		f.runFor(3 * time.Second)
		if a := f.engines[0]; f.up() || a.Count(vni.DropUnsealed) == 0 || a.Count(vni.RelHelloSends) != 0 {
			t.Errorf("sealed first %v: %d hellos were dropped, and %d were answered", sealedFirst, a.Count(vni.DropUnsealed), a.Count(vni.RelHelloSends))
		}
	}
}

func TestANICThatHasNotTheKeyOfItsIdIsNotBelieved(t *testing.T) {
	thief := func(s *rel.Security, p *trust.PolicyConfig) {
		s.Key = testKey(77)
		p.Key = s.Key.Public()
		delete(p.Bound, 2)
	}
	f := strangers(t, sealedNIC(nil), sealedNIC(thief))
	f.runFor(3 * time.Second)
	if a := f.engines[0]; a.peerOf(2) != nil && a.peerOf(2).ep.Up() || a.Count(vni.DropIdentity) == 0 {
		t.Errorf("%d handshakes ended with a key that is not that of the id", a.Count(vni.DropIdentity))
	}
}

func TestAHandshakeForAnotherKeyIsCountedAndXXFollows(t *testing.T) {
	f := strangers(t, sealedNIC(nil), sealedNIC(nil))
	a, b := f.engines[0], f.engines[1]
	if err := b.Bind(1, testKey(1).Public()); err != nil {
		t.Fatal(err)
	}
	f.until(time.Second, "the peer is known", func() bool { return b.rel.Endpoint(1) != nil })
	f.until(5*time.Second, "a session", f.up)
	if a.Count(vni.DropHandshake) != 0 {
		t.Errorf("%d handshakes did not verify", a.Count(vni.DropHandshake))
	}

	f = strangers(t, sealedNIC(func(s *rel.Security, p *trust.PolicyConfig) {
		s.Key = testKey(500)
		p.Key = s.Key.Public()
	}), sealedNIC(func(_ *rel.Security, p *trust.PolicyConfig) { p.Bound[1] = testKey(500).Public() }))
	a, b = f.engines[0], f.engines[1]
	b.begin()
	ep, err := b.rel.Open(1, mem.Address(1))
	if err != nil {
		t.Fatal(err)
	}
	ep.Know(testKey(1).Public()) // the key that it had before
	f.until(10*time.Second, "a session", f.up)
	if a.Count(vni.DropHandshake) != 3 {
		t.Errorf("%d handshakes did not verify; expected 3, and XX then", a.Count(vni.DropHandshake))
	}
}

// flood sends a NIC the Hellos of n NICs with the fabric key, each from a separate address.
func (f *fabric) flood(n int) {
	gate := seal.NewGate([]trust.FabricKey{testFabricKey}, secret.Seeded(1000))
	for i := range n {
		hs := seal.Initiate(seal.NewIdentity(testKey(uint64(1000+i))), nil,
			seal.Options{Psk: gate.Psk(0), Prologue: []byte("weft"), Random: secret.Seeded(uint64(i)).Reader(secret.Handshake)})
		payload := make([]byte, wire.HelloLen)
		h := wire.Hello{MinVersion: 1, MaxVersion: 1, Index: 1, NIC: uint64(1000 + i), Incarnation: 1, MTUCommand: 1472, MTUData: 1472,
			WinCommand: 64, WinData: 64, EchoCounter: 1}
		h.Put(payload)
		noise, err := hs.Write(payload)
		if err != nil {
			f.t.Fatal(err)
		}
		port := f.sw.Port()
		b := port.Reserve(mem.Address(1))
		wire.Outer{Kind: wire.KindHello, Flags: wire.FlagSealed, Counter: 1}.Put(b)
		body := wire.Handshake{Pattern: wire.PatternXX, Message: 1, Index: 1, MinVersion: 1, MaxVersion: 1, Noise: noise}
		length := max(body.Len(), 300)
		body.Put(b[wire.OuterLen:], length)
		port.Commit(gate.Sign(b, wire.OuterLen+length, 0, nil))
		f.engines[0].Poll(f.now)
	}
}

func TestAFloodedNICAsksForProofOfAddressesAndStillTakesANewcomer(t *testing.T) {
	f := strangers(t, sealedNIC(nil), sealedNIC(nil))
	a := f.engines[0]
	f.flood(200)
	f.until(5*time.Second, "the newcomer's session", func() bool { return f.up() })
	if a.Count(vni.RelCookieSends) == 0 {
		t.Error("no sender of a hello was asked to prove its address")
	}
}

func TestKeysChangeWhileMessagesGoOn(t *testing.T) {
	fast := func(s *rel.Security, _ *trust.PolicyConfig) {
		s.Pace = rel.Pace{Phase: seal.Pace{Frames: 50, Time: 20 * time.Millisecond}, RenewAfter: 200 * time.Millisecond}
	}
	f := newWideFabric(t, 1472, 2, fault.Config{}, sealedNIC(fast))
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	session := a.e.peerOf(2).ep.Session()
	for i := range 100 {
		data, buf := pattern(1000, byte(i)), make([]byte, 1000)
		r := b.recv("a/0", 1, 0, buf)
		a.wantSent(a.send("b/0", 1, 0, data))
		b.wantReceived(r, buf, data)
		f.runFor(10 * time.Millisecond)
	}
	for _, e := range f.engines {
		if e.Count(vni.RelRekeys) < 10 || e.Count(vni.RelRenewals) < 2 {
			t.Errorf("NIC %d began %d phases, and had %d handshakes for fresh keys", e.ID(), e.Count(vni.RelRekeys), e.Count(vni.RelRenewals))
		}
	}
	if !f.up() || a.e.peerOf(2).ep.Session() != session {
		t.Error("the session is another one")
	}
}

// movable is a link whose address can change.
type movable struct{ *mem.Port }

func (m *movable) Properties() link.Properties { return link.Properties{} }
func (m *movable) Caps() link.Caps             { return link.Caps{} }

func TestAPeerThatMovesKeepsItsSession(t *testing.T) {
	var port *movable
	f := newWideFabric(t, 1472, 2, fault.Config{}, sealedNIC(nil), func(c *Config) {
		if c.ID == 2 {
			port = &movable{c.Link.(promiseless).Port}
			c.Link = port
		}
	})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	session := a.e.peerOf(2).ep.Session()
	port.Port = f.sw.Port()
	for i := range 10 {
		data, buf := pattern(300, byte(i)), make([]byte, 300)
		r := a.recv("b/0", 1, 0, buf)
		b.wantSent(b.send("a/0", 1, 0, data))
		a.wantReceived(r, buf, data)
	}
	ep := a.e.peerOf(2).ep
	if ep.Addr() != port.Addr() || ep.Session() != session || a.e.Count(vni.RelStrays) == 0 || a.e.Count(vni.RelRoams) != 1 {
		t.Errorf("the peer is at %v, moved %d times, with %d frames from elsewhere", ep.Addr(), a.e.Count(vni.RelRoams), a.e.Count(vni.RelStrays))
	}
}

// narrow is a port that takes short frames.
type narrow struct{ *mem.Port }

func (narrow) MTU() int { return 600 }

func TestACertificateThatNoFrameCarriesIsRefusedAtTheStart(t *testing.T) {
	cfg := Config{ID: 1, Incarnation: 1, Secrets: secret.Seeded(1), Link: mem.NewSwitch(mem.Config{}).Port()}
	sealedNIC(func(s *rel.Security, _ *trust.PolicyConfig) { s.Certificate = make([]byte, 500) })(&cfg)
	cfg.Link = narrow{cfg.Link.(promiseless).Port}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "MTU of at least 752") {
		t.Errorf("the NIC starts: %v", err)
	}
}

// morning returns the time of day in tests: one second after the epoch, plus the time since.
func morning(now clock.Time) int64 { return 1 + int64(now)/int64(time.Second) }
