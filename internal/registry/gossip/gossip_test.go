package gossip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/internal/trust"
)

// failureTimeout of the registries in these tests. It is so long that members do not seem dead on
// a busy machine.
const failureTimeout = 3 * time.Second

// book is a log that tests read.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// peer is a registry under test, its log and its network.
type peer struct {
	*Registry
	log  *book
	wire *wire
}

// testKeys returns the gossip keys of a fabric with n keys.
func testKeys(t *testing.T, n int) []Key {
	t.Helper()
	var fabric []trust.FabricKey
	for i := range n {
		fabric = append(fabric, sha256.Sum256([]byte{byte(i)}))
	}
	return Keys(fabric)
}

// begin starts to gossip for NIC id at 127.0.0.1:port. Nothing listens there: the registry only
// tells of it.
func begin(t *testing.T, id registry.NICID, port uint16, change func(*Config), seeds ...netip.AddrPort) *peer {
	t.Helper()
	p := &peer{log: new(book), wire: new(wire)}
	c := Config{ID: id, Incarnation: uint64(time.Now().UnixNano()), Addr: loopback(port), Listen: loopback(0), Seeds: seeds,
		Keys: testKeys(t, 1), FailureTimeout: failureTimeout, wrap: p.wire.wrap,
		Log: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.Registry = r
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of NIC %v at %v:\n%s", id, c.Addr, p.log)
		}
	})
	return p
}

// freeAddr returns an address at which nothing listens, nor will.
func freeAddr(t *testing.T) netip.AddrPort {
	t.Helper()
	return netip.MustParseAddrPort(testenv.Loopback(t))
}

func loopback(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
}

// kill ends a registry without a word to the others.
func (p *peer) kill() {
	p.wire.cut.Store(true)
	p.Close()
}

// wire is a network that can be cut.
type wire struct {
	memberlist.NodeAwareTransport
	cut    atomic.Bool
	paused sync.Mutex        // datagrams wait while a test holds it
	dial   func(addr string) // called before each call of addr; nil: nothing is
}

func (w *wire) wrap(t memberlist.NodeAwareTransport) memberlist.NodeAwareTransport {
	w.NodeAwareTransport = t
	return w
}

func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	return w.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (w *wire) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	w.paused.Lock()
	defer w.paused.Unlock()
	if w.cut.Load() {
		return time.Now(), nil
	}
	return w.NodeAwareTransport.WriteToAddress(b, a)
}

func (w *wire) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return w.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

func (w *wire) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	if w.cut.Load() {
		return nil, errors.New("the network is cut")
	}
	if w.dial != nil {
		w.dial(a.Addr)
	}
	return w.NodeAwareTransport.DialAddressTimeout(a, d)
}

// patience bounds waits that end soon unless something is broken.
const patience = time.Minute

// knows waits until p's list holds these NICs, by id and port.
func (p *peer) knows(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := p.Watch(ctx, func(l []registry.Node) {
		got = nil
		for _, n := range l {
			got = append(got, fmt.Sprintf("%d:%d", uint64(n.ID), n.Addr.Port()))
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			cancel()
		}
	})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v knows %v after %v; want %v; %v", p.config.Addr, got, patience, want, err)
	}
	t.Logf("%v knows %v after %v", p.config.Addr, want, time.Since(began).Round(time.Millisecond))
}

func (p *peer) says(t *testing.T, parts ...string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		for line := range strings.Lines(p.log.String()) {
			if !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(line, s) }) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no line of the log has %q", parts)
		}
	}
}

func TestOneSeedIsEnoughToFindAll(t *testing.T) {
	a := begin(t, 1, 7001, nil)
	b := begin(t, 2, 7002, nil, a.Addr())
	c := begin(t, 3, 7003, nil, a.Addr())
	for _, p := range []*peer{a, b, c} {
		p.knows(t, "1:7001", "2:7002", "3:7003")
	}
	a.Close()
	d := begin(t, 4, 7004, nil, c.Addr()) // every member is a seed
	for _, p := range []*peer{b, c, d} {
		p.knows(t, "2:7002", "3:7003", "4:7004")
	}
}

func TestWhoLeavesSaysSo(t *testing.T) {
	// a leaving NIC is not gone by its silence
	patient := func(c *Config) { c.FailureTimeout = time.Hour }
	a := begin(t, 1, 7001, patient)
	b := begin(t, 2, 7002, patient, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	b.Close()
	a.knows(t, "1:7001")
}

func TestGossipGoesOverIPv6(t *testing.T) {
	here := netip.MustParseAddrPort("[::1]:0")
	if l, err := net.Listen("tcp", here.String()); err != nil {
		t.Skip("this host has no IPv6:", err)
	} else {
		l.Close()
	}
	six := func(c *Config) {
		c.Listen, c.Addr = here, netip.AddrPortFrom(here.Addr(), c.Addr.Port())
	}
	a := begin(t, 1, 7001, six)
	b := begin(t, 2, 7002, six, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	b.knows(t, "1:7001", "2:7002")
	if n := a.Nodes()[1]; n.Addr.String() != "[::1]:7002" {
		t.Errorf("NIC 2 is at %v", n.Addr)
	}
}

func TestASilentNICIsRemovedAndComesBackInItsNextLife(t *testing.T) {
	a := begin(t, 1, 7001, nil)
	at := freeAddr(t)
	b := begin(t, 2, 7002, func(c *Config) { c.Listen = at }, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	killed, late := time.Now(), testenv.WatchLateness(t)
	b.kill()
	a.knows(t, "1:7001")
	if took := time.Since(killed) - late.Total(); took > failureTimeout {
		t.Errorf("it was removed after %v; expected %v at most", took, failureTimeout)
	}
	again := begin(t, 2, 7002, func(c *Config) { c.Listen = at }, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	again.knows(t, "1:7001", "2:7002")
	again.kill()
	elsewhere := begin(t, 2, 7002, nil, a.Addr()) // at once, and its gossip has another port
	elsewhere.knows(t, "1:7001", "2:7002")
	a.knows(t, "1:7001", "2:7002")
}

func TestTwoHalvesFindOneAnotherAfterAPartition(t *testing.T) {
	a := begin(t, 1, 7001, nil)
	b := begin(t, 2, 7002, nil, a.Addr())
	for _, p := range []*peer{a, b} {
		p.knows(t, "1:7001", "2:7002")
	}
	cut := func(c bool) { a.wire.cut.Store(c); b.wire.cut.Store(c) }
	cut(true)
	a.knows(t, "1:7001")
	b.knows(t, "2:7002")
	cut(false)
	a.knows(t, "1:7001", "2:7002")
	b.knows(t, "1:7001", "2:7002")
}

func TestLostMembersAreCalledThoughTheyAreNoSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until members no longer gossip to the dead of their own accord")
	}
	short := func(c *Config) { c.FailureTimeout = LeastFailureTimeout }
	seed := begin(t, 1, 7001, short)
	b, c := begin(t, 2, 7002, short, seed.Addr()), begin(t, 3, 7003, short, seed.Addr())
	b.knows(t, "1:7001", "2:7002", "3:7003")
	c.knows(t, "1:7001", "2:7002", "3:7003")
	seed.kill()
	b.wire.cut.Store(true)
	c.wire.cut.Store(true)
	b.knows(t, "2:7002")
	c.knows(t, "3:7003")
	time.Sleep(b.config.timing().GossipToTheDeadTime)
	b.wire.cut.Store(false)
	c.wire.cut.Store(false)
	b.knows(t, "2:7002", "3:7003")
	c.knows(t, "2:7002", "3:7003")
}

func TestOnlySoManyLostMembersAreRemembered(t *testing.T) {
	m, now := newMembers(), time.Unix(1_000_000, 0)
	for i := range 2 * limits.GossipLost {
		m.remember(loopback(uint16(i+1)), now.Add(time.Duration(i)*time.Second))
	}
	_, lost := m.absent(nil, now.Add(time.Hour))
	slices.SortFunc(lost, netip.AddrPort.Compare)
	if len(lost) != limits.GossipLost || lost[0].Port() != limits.GossipLost+1 {
		t.Errorf("%d are remembered, from %v on", len(lost), lost[0])
	}
	if _, lost := m.absent(nil, now.Add(limits.GossipForget+time.Hour)); len(lost) != 0 {
		t.Errorf("%v are never forgotten", lost)
	}
	seeds, _ := m.absent([]netip.AddrPort{loopback(1)}, now)
	if !slices.Equal(seeds, []netip.AddrPort{loopback(1)}) {
		t.Errorf("seeds to call are %v", seeds)
	}
}

func TestTheSecondNICOfAnIDIsRefusedUntilTheFirstIsGone(t *testing.T) { // decision 1
	a := begin(t, 1, 7001, nil)
	first := begin(t, 2, 7002, nil, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	// Its life is older, as on a host whose clock is slow. The first has the id nevertheless.
	second := begin(t, 2, 7003, func(c *Config) { c.Incarnation = 5 }, a.Addr())
	second.says(t, "level=ERROR", "nic=0:0:0:0:0:0:0:2", "here=127.0.0.1:7003", "there=127.0.0.1:7002")
	a.says(t, "level=WARN", "nic=0:0:0:0:0:0:0:2", "first=127.0.0.1:7002", "second=127.0.0.1:7003")
	second.knows(t) // it must not talk to any NIC
	late := begin(t, 4, 7004, nil, a.Addr())
	for _, p := range []*peer{a, first, late} {
		p.knows(t, "1:7001", "2:7002", "4:7004")
	}
	first.Close()
	for _, p := range []*peer{a, second, late} {
		p.knows(t, "1:7001", "2:7003", "4:7004")
	}
}

func TestWhoHasAnotherKeyIsNotLetIn(t *testing.T) {
	a := begin(t, 1, 7001, nil)
	b := begin(t, 2, 7002, func(c *Config) { c.Keys[0][0] ^= 1 }, a.Addr())
	b.says(t, "no seed has let this NIC join", "fabric key", a.Addr().String())
	a.says(t, "level=WARN", "no installed keys could decrypt", "from=127.0.0.1")
	a.knows(t, "1:7001")
	b.knows(t, "2:7002")
}

// A fabric changes from one key to another while its NICs gossip. docs/fabric.md has the steps.
func TestMembersWithSeveralKeysUnderstandEachOfThem(t *testing.T) {
	both := testKeys(t, 2)
	old := begin(t, 1, 7001, func(c *Config) { c.Keys = both[:1] })
	between := begin(t, 2, 7002, func(c *Config) { c.Keys = both }, old.Addr())
	old.knows(t, "1:7001", "2:7002")
	between.knows(t, "1:7001", "2:7002")
	old.Close()
	begin(t, 3, 7003, func(c *Config) { c.Keys = []Key{both[1], both[0]} }, between.Addr()).knows(t, "2:7002", "3:7003")
	between.knows(t, "2:7002", "3:7003")
}

// Afterwards only a NIC with the new key is let in, also by a member that had three keys.
func TestTheKeysOfAMemberChangeWhileItGossips(t *testing.T) {
	keys := testKeys(t, 4)
	a := begin(t, 1, 7001, func(c *Config) { c.Keys = slices.Clone(keys[:3]) })
	b := begin(t, 2, 7002, nil, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	for _, step := range [][]Key{{keys[0], keys[3]}, {keys[3], keys[0]}, {keys[3]}} {
		for _, p := range []*peer{a, b} {
			if err := p.UseKeys(slices.Clone(step)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ring := a.ring.GetKeys(); len(ring) != 1 || Key(ring[0]) != keys[3] {
		t.Errorf("%d keys are left", len(ring))
	}
	begin(t, 3, 7003, func(c *Config) { c.Keys = keys[3:] }, a.Addr()).knows(t, "1:7001", "2:7002", "3:7003")
	begin(t, 4, 7004, nil, b.Addr()).says(t, "no seed has let this NIC join")
	for _, bad := range [][]Key{nil, {keys[3], {}}} {
		if err := a.UseKeys(bad); err == nil {
			t.Errorf("the keys %v are taken", bad)
		}
	}
	a.knows(t, "1:7001", "2:7002", "3:7003")
}

func TestSeedsThatDoNotAnswerAreCalledUntilTheyDo(t *testing.T) {
	at := freeAddr(t)
	b := begin(t, 2, 7002, nil, at)
	b.says(t, "no seed has let this NIC join", at.String())
	b.says(t, "this NIC gossips, and knows no other yet")
	if log := b.log.String(); strings.Contains(log, `\n`) || strings.Contains(log, "known to the fabric") {
		t.Errorf("the log of a NIC that is alone:\n%s\nexpected an error on one line, and not that the fabric knows the NIC", log)
	}
	b.knows(t, "2:7002") // the first of a fabric has no other to ask
	begin(t, 1, 7001, func(c *Config) { c.Listen = at })
	b.knows(t, "1:7001", "2:7002")
	b.says(t, "joined the gossip")
}

// The seeds are called at once, and the first answer is enough. A NIC does not wait for a seed
// that neither answers nor refuses.
func TestASeedThatHangsKeepsNoNICFromTheOthers(t *testing.T) {
	a := begin(t, 1, 7001, nil)
	hangs := []netip.AddrPort{freeAddr(t), freeAddr(t)}
	over := make(chan struct{})
	w := &wire{dial: func(addr string) {
		if addr != a.Addr().String() {
			<-over
		}
	}}
	b := begin(t, 2, 7002, func(c *Config) { c.wrap = w.wrap }, hangs[0], a.Addr(), hangs[1])
	t.Cleanup(func() { close(over) }) // before the end of b
	a.knows(t, "1:7001", "2:7002")
	b.knows(t, "1:7001", "2:7002")
}

func TestAConfigurationThatCannotWorkIsRefused(t *testing.T) {
	taken := begin(t, 9, 7009, nil)
	good := Config{ID: 1, Incarnation: 1, Addr: loopback(7001), Listen: loopback(0), Keys: testKeys(t, 1), FailureTimeout: failureTimeout}
	for want, change := range map[string]func(*Config){
		"NIC id 0":                     func(c *Config) { c.ID = 0 },
		"incarnation 0":                func(c *Config) { c.Incarnation = 0 },
		"127.0.0.1:0, where others":    func(c *Config) { c.Addr = loopback(0) },
		"%eth0]:7001, where others":    func(c *Config) { c.Addr = netip.MustParseAddrPort("[fe80::1%eth0]:7001") },
		"Config.Keys is empty":         func(c *Config) { c.Keys = nil },
		"a key of zeros":               func(c *Config) { c.Keys = make([]Key, 1) },
		"failure timeout of 1ms":       func(c *Config) { c.FailureTimeout = time.Millisecond },
		"address already in use":       func(c *Config) { c.Listen = taken.Addr() },
		"192.0.2.1:0: failed to start": func(c *Config) { c.Listen = netip.MustParseAddrPort("192.0.2.1:0") },
	} {
		c := good
		change(&c)
		if r, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v; want %q", err, want)
			if r != nil {
				r.Close()
			}
		}
	}
}

// Sockets are opened before the rest is checked. A registry that is refused, or closed, must not
// keep its port.
func TestARefusedOrClosedRegistryLeavesItsPortFree(t *testing.T) {
	at := freeAddr(t)
	c := Config{ID: 1, Incarnation: 1, Addr: loopback(7001), Listen: at, FailureTimeout: failureTimeout}
	for i := range 2 {
		c.Keys = make([]Key, 1)
		if r, err := New(c); err == nil {
			r.Close()
			t.Fatal("a key of zeros is taken")
		}
		c.Keys = testKeys(t, 1)
		r, err := New(c)
		if err != nil {
			t.Fatalf("round %d: with a good key: %v", i+1, err)
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// In a large fabric, or behind a slow network, the time to leave ends before all have heard of it.
// The registry closes all the same, and its port is free.
func TestARegistryThatNobodyHearsLeavingIsClosed(t *testing.T) {
	patient := func(c *Config) { c.FailureTimeout = time.Hour }
	a := begin(t, 1, 7001, patient)
	b := begin(t, 2, 7002, patient, a.Addr())
	begin(t, 3, 7003, patient, a.Addr())
	b.knows(t, "1:7001", "2:7002", "3:7003")
	b.wire.paused.Lock()
	err := b.Close()
	b.wire.paused.Unlock()
	if err != nil {
		t.Error(err)
	}
	next, err := New(Config{ID: 2, Incarnation: 1, Addr: loopback(7002), Listen: b.Addr(), Keys: testKeys(t, 1)})
	if err != nil {
		t.Fatalf("the next registry at its port: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhoListensEverywhereTellsTheAddressTowardsItsSeed(t *testing.T) {
	a := begin(t, 1, 7001, nil)
	b := begin(t, 2, 7002, func(c *Config) {
		c.Addr, c.Listen = netip.MustParseAddrPort("[::]:7002"), netip.MustParseAddrPort("0.0.0.0:0")
	}, a.Addr())
	a.knows(t, "1:7001", "2:7002")
	if got := a.Nodes()[1].Addr; got != loopback(7002) || b.Addr().Addr() != loopback(0).Addr() {
		t.Errorf("NIC 2 is at %v, its gossip at %v", got, b.Addr())
	}
}

// Lost members are called too, as many as there have been. Only the calls of seeds are noted.
func TestNotesOfCallsAreAsManyAsTheSeeds(t *testing.T) {
	seed := loopback(7001)
	r := &Registry{config: Config{Seeds: []netip.AddrPort{seed}}, members: newMembers()}
	for port := range uint16(500) {
		r.noteCall(loopback(7001+port), errors.New("no answer"))
	}
	if silent := r.Silent(); len(r.failed) != 1 || len(silent) != 1 || silent[0].Seed != seed {
		t.Errorf("%d calls are noted, and %v are silent", len(r.failed), silent)
	}
	if r.noteCall(seed, nil); len(r.Silent()) != 0 {
		t.Errorf("a seed that has answered is silent: %v", r.Silent())
	}
}

func TestStrangersCannotFillTheLog(t *testing.T) {
	b := new(book)
	w := &logWriter{to: slog.New(slog.NewTextHandler(b, nil))}
	for i := range 1000 {
		fmt.Fprintf(w, "[ERR] memberlist: packet %d is garbage\n", i)
		fmt.Fprintf(w, "[DEBUG] memberlist: detail %d\n", i)
	}
	if n := strings.Count(b.String(), "\n"); n != logLines {
		t.Errorf("%d lines", n)
	}
	w.begun = time.Now().Add(-logStretch - time.Second)
	fmt.Fprintf(w, "[ERR] memberlist: later\n")
	if s := b.String(); !strings.Contains(s, "dropped=980") || !strings.Contains(s, "level=WARN msg=\"gossip: memberlist: later\"") {
		t.Errorf("the log ends with %s", s[max(0, len(s)-300):])
	}
}
