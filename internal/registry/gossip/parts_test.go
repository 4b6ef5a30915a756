package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// told returns a member in the form in which memberlist reports it.
func told(name string, port uint16, c claim, state memberlist.NodeStateType) *memberlist.Node {
	return &memberlist.Node{Name: name, Addr: net.IPv4(127, 0, 0, 1).To16(), Port: port, Meta: c.append(nil), State: state}
}

// woken reports whether a change has been signalled.
func (m *members) woken() bool {
	select {
	case <-m.changed:
		return true
	default:
		return false
	}
}

// Each change of the members is noted and wakes the judge. A lost member is remembered, and one
// that has left is not.
func TestMembersAreNotedAsTheyComeAndGo(t *testing.T) {
	m := newMembers()
	c, d := aClaim(), aClaim()
	d.incarnation++
	seeds := []netip.AddrPort{loopback(1), loopback(2), loopback(3)}
	want := func(when string, claims int, seedsAbsent, lost []netip.AddrPort, alone bool) {
		t.Helper()
		gotSeeds, gotLost := m.absent(seeds, time.Now())
		if len(m.claims()) != claims || !slices.Equal(gotSeeds, seedsAbsent) || !slices.Equal(gotLost, lost) || m.alone() != alone {
			t.Errorf("%s: %d claims, seeds %v and lost members %v are absent, alone %v", when, len(m.claims()), gotSeeds, gotLost, m.alone())
		}
		if !m.woken() || m.woken() {
			t.Errorf("%s: the judge is not woken, or twice", when)
		}
	}
	m.NotifyJoin(told("a", 1, c, memberlist.StateAlive))
	want("one is there", 1, seeds[1:], nil, true)
	m.NotifyJoin(told("b", 2, c, memberlist.StateAlive))
	m.NotifyUpdate(told("b", 2, d, memberlist.StateAlive))
	want("two are there", 2, seeds[2:], nil, false)
	if !slices.Contains(m.claims(), d) {
		t.Errorf("the claims are %v; expected the later one of b", m.claims())
	}
	m.NotifyLeave(told("b", 2, d, memberlist.StateDead))
	want("one is lost", 1, seeds[1:], seeds[1:2], true)
	m.NotifyJoin(told("b", 2, d, memberlist.StateAlive))
	want("it is back", 2, seeds[2:], nil, false)
	m.NotifyLeave(told("b", 2, d, memberlist.StateLeft))
	want("one has left", 1, seeds[1:], nil, true)
	m.NotifyLeave(told("c", 3, d, memberlist.StateDead))
	// another member at the place of a lost one
	m.NotifyJoin(told("d", 3, d, memberlist.StateAlive))
	want("another is at its place", 2, seeds[1:2], nil, false)
	bad := told("e", 4, d, memberlist.StateAlive)
	bad.Meta = bad.Meta[:claimLen-1]
	if err := m.NotifyAlive(bad); !errors.Is(err, errClaim) {
		t.Errorf("a member that says nothing sensible is taken: %v", err)
	}
	if err := m.NotifyAlive(told("e", 4, d, memberlist.StateAlive)); err != nil {
		t.Errorf("a member that says what it should is refused: %v", err)
	}
	if m.NotifyJoin(bad); len(m.claims()) != 2 || m.woken() {
		t.Errorf("%d claims with one that says nothing sensible", len(m.claims()))
	}
	if m.setMeta(c); !slices.Equal(m.NodeMeta(512), c.append(nil)) {
		t.Error("the others are told another claim than this NIC's")
	}
	if m.LocalState(true) != nil || m.GetBroadcasts(1, 2) != nil {
		t.Error("a member has data of its own to tell")
	}
}

// A lost member is remembered for GossipForget, and only once.
func TestALostMemberIsForgottenInTheEnd(t *testing.T) {
	m, now := newMembers(), time.Unix(1000, 0)
	m.remember(loopback(1), now)
	m.remember(loopback(1), now.Add(time.Second))
	if _, lost := m.absent(nil, now.Add(time.Second+limits.GossipForget)); len(lost) != 1 {
		t.Errorf("%v are remembered when it is time to forget", lost)
	}
	if _, lost := m.absent(nil, now.Add(time.Second+limits.GossipForget+1)); len(lost) != 0 || len(m.lost) != 0 {
		t.Errorf("%v are remembered behind the time", lost)
	}
	for i := range limits.GossipLost {
		m.remember(loopback(uint16(i+1)), now.Add(time.Duration(i)*time.Second))
	}
	m.remember(loopback(1), now.Add(time.Hour)) // it is known, and takes no new place
	if len(m.lost) != limits.GossipLost || m.lost[loopback(1)] != now.Add(time.Hour) {
		t.Errorf("%d are remembered", len(m.lost))
	}
	m.remember(loopback(9999), now.Add(time.Hour))
	if _, kept := m.lost[loopback(2)]; kept || len(m.lost) != limits.GossipLost {
		t.Errorf("%d are remembered, the oldest among them: %v", len(m.lost), kept)
	}
}

// A line of memberlist's log is passed on one level lower. A line about a message that no key
// opens is counted.
func TestTheLogOfTheLibraryIsPassedOnAtALowerLevel(t *testing.T) {
	b := new(book)
	w := &logWriter{to: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, line := range []string{"[ERR] memberlist: one\n", "[WARN] memberlist: two\n", "[INFO] memberlist: three\n", "[DEBUG] memberlist: four\n", "five\n",
		"[ERR] memberlist: no installed keys could decrypt the message from=10.0.0.9\n"} {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%d bytes of %q are written, %v", n, line, err)
		}
	}
	for i, want := range []string{`level=WARN msg="gossip: memberlist: one"`, `level=INFO msg="gossip: memberlist: two"`, `level=DEBUG msg="gossip: memberlist: three"`,
		`level=DEBUG msg="gossip: memberlist: four"`, `level=DEBUG msg="gossip: five"`, `level=WARN msg="gossip: memberlist: no installed keys`} {
		if l := strings.Split(b.String(), "\n"); !strings.Contains(l[i], want) {
			t.Errorf("line %d is %s; expected %s", i, l[i], want)
		}
	}
	r := &Registry{members: newMembers()}
	for range 3 {
		r.heard.unopened.Add(w.unopened.Load())
	}
	if r.Unopened() != 3 {
		t.Errorf("%d messages did not open; expected 3", r.Unopened())
	}
	r.members.NotifyJoin(told("a", 1, aClaim(), memberlist.StateAlive))
	if r.Unopened() != 3 {
		t.Error("the NIC itself is no other member")
	}
	if r.members.NotifyJoin(told("b", 2, aClaim(), memberlist.StateAlive)); r.Unopened() != 0 {
		t.Error("a NIC that has found another has the same key as that")
	}
}

// In each interval a limited number of lines pass, and the next interval begins anew. Debug lines
// are not counted.
func TestAStretchOfTheLogHasABoundedNumberOfLines(t *testing.T) {
	w := &logWriter{}
	passed := func(n int, l slog.Level) (ok int) {
		for range n {
			if yes, dropped := w.admit(l); yes && dropped == 0 {
				ok++
			}
		}
		return ok
	}
	if ok := passed(logLines+3, slog.LevelInfo); ok != logLines {
		t.Errorf("%d lines pass, expected %d", ok, logLines)
	}
	if ok := passed(5, slog.LevelDebug); ok != 5 {
		t.Errorf("%d of 5 lines for debugging pass", ok)
	}
	w.begun = w.begun.Add(-logStretch - time.Second)
	if ok, dropped := w.admit(slog.LevelWarn); !ok || dropped != 3 {
		t.Errorf("the next stretch begins: passed %v, %d dropped; expected 3", ok, dropped)
	}
	if ok := passed(logLines, slog.LevelWarn); ok != logLines-1 {
		t.Errorf("%d lines pass in the next stretch, expected %d", ok, logLines-1)
	}
	// Each stretch tells of its own lines, and ends in its time however many lines come.
	begun := w.begun
	if passed(2, slog.LevelWarn); w.begun != begun {
		t.Errorf("a line moves the begin of the stretch by %v", w.begun.Sub(begun))
	}
	w.begun = w.begun.Add(-logStretch - time.Second)
	if ok, dropped := w.admit(slog.LevelWarn); !ok || dropped != 3 {
		t.Errorf("the third stretch begins: passed %v, %d dropped; expected 3", ok, dropped)
	}
	w.begun = w.begun.Add(-logStretch - time.Second)
	if ok, dropped := w.admit(slog.LevelWarn); !ok || dropped != 0 {
		t.Errorf("a stretch without dropped lines: passed %v, %d dropped", ok, dropped)
	}
}

// A NIC that knows no other calls its seeds often, since the hosts of a fabric may start together.
// It calls less often as soon as it knows another, and from then on.
func TestANICThatKnowsNoOtherCallsOften(t *testing.T) {
	const often, seldom = limits.GossipJoinEvery, limits.GossipRejoinEvery
	for _, c := range []struct {
		before   time.Duration
		answered int
		alone    bool
		seeds    int
		want     time.Duration
	}{
		{often, 0, true, 1, often}, {often, 0, true, 3, often}, {often, 1, true, 1, seldom}, {often, 0, false, 1, seldom},
		{often, 0, true, 0, seldom}, {seldom, 0, true, 1, seldom}, {seldom, 2, false, 0, seldom},
	} {
		if got := pause(c.before, c.answered, c.alone, c.seeds); got != c.want {
			t.Errorf("%+v: the pause is %v", c, got)
		}
	}
}

// Seeds that are no members and did not answer are listed by address, with the reason on one
// line.
func TestSilentSeedsAreListedWithTheReason(t *testing.T) {
	here := loopback(7000)
	seeds := []netip.AddrPort{loopback(7003), here, loopback(7001), netip.MustParseAddrPort("126.0.0.1:9"), loopback(7002)}
	r := &Registry{config: Config{Seeds: seeds}, members: newMembers(), at: here}
	if l := r.others(); len(l) != 4 || slices.Contains(l, here) {
		t.Errorf("the other seeds are %v", l)
	}
	if l := r.Silent(); len(l) != 0 {
		t.Errorf("before the first call %v are silent", l)
	}
	for _, s := range seeds {
		r.noteCall(s, errors.New("2 errors occurred:\n\t* Failed to join\n\t* no route\n\n"))
	}
	r.noteCall(loopback(7002), nil)
	r.members.NotifyJoin(told("c", 7003, aClaim(), memberlist.StateAlive))
	got := fmt.Sprint(r.Silent())
	if want := "[{126.0.0.1:9 Failed to join; no route} {127.0.0.1:7001 Failed to join; no route}]"; got != want {
		t.Errorf("silent are %s; expected %s", got, want)
	}
	if s := oneLine(nil); s != "" {
		t.Errorf("no error is %q", s)
	}
}

// A dispute is logged once as long as it lasts, unless it is about this NIC, which logs it
// itself.
func TestADisputeIsLoggedOnce(t *testing.T) {
	b := new(book)
	r := &Registry{log: slog.New(slog.NewTextHandler(b, nil)), self: self{claim: claim{id: 1, addr: hereA}}}
	one, own := dispute{2, hereB, hereC}, dispute{1, hereB, hereA}
	for _, l := range [][]dispute{{one, own}, {one}, {}, {one}} {
		r.report(l)
	}
	if n := strings.Count(b.String(), "two NICs claim one id"); n != 2 || strings.Contains(b.String(), "second="+hereA.String()) {
		t.Errorf("%d disputes are logged:\n%s", n, b)
	}
}

// Watchers receive the current list, and each new list once.
func TestWatchersHearEachListOnce(t *testing.T) {
	r := &Registry{changed: make(chan struct{})}
	lists := [][]registry.Node{{{ID: 1, Addr: hereA}}, {{ID: 1, Addr: hereB}}}
	heard := make(chan []registry.Node)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Watch(ctx, func(l []registry.Node) { heard <- l }) }()
	if l := <-heard; len(l) != 0 {
		t.Errorf("first it is %v", l)
	}
	for _, l := range lists {
		r.publish(l)
		if got := <-heard; !slices.Equal(got, l) {
			t.Errorf("%v is heard, expected %v", got, l)
		}
		r.publish(slices.Clone(l)) // the same list
	}
	select {
	case l := <-heard:
		t.Errorf("the same list is heard again: %v", l)
	default:
	}
	if got := r.Nodes(); !slices.Equal(got, lists[1]) {
		t.Errorf("the list is %v", got)
	}
	r.Nodes()[0].ID = 9
	if r.Nodes()[0].ID != 1 {
		t.Error("the list is shared with its reader")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The failure timeout is a promise: probes, suspicion and the spread of the news fit within it.
func TestTheTimingFitsTheFailureTimeout(t *testing.T) {
	for _, d := range []time.Duration{LeastFailureTimeout, 3 * time.Second, time.Minute} {
		c := Config{FailureTimeout: d}
		m := c.timing()
		objections := 9 * m.ProbeInterval // three for each power of ten of a thousand members
		if all := 5*m.ProbeInterval + objections + 2*m.GossipInterval; all > d || m.ProbeTimeout >= m.ProbeInterval || m.SuspicionMaxTimeoutMult != 1 || m.SuspicionMult != 3 {
			t.Errorf("%v: a silent member is gone after %v: %+v", d, all, m)
		}
		if m.GossipToTheDeadTime <= d || m.TCPTimeout != limits.GossipCall || m.GossipInterval > 100*time.Millisecond {
			t.Errorf("%v: gossip to the dead for %v, calls for %v, rounds of %v", d, m.GossipToTheDeadTime, m.TCPTimeout, m.GossipInterval)
		}
	}
}

// A NIC that listens at one address is reached there. A NIC that listens at all addresses is
// reached at the source address of its path to a seed.
func TestANICIsReachedWhereItListens(t *testing.T) {
	for _, c := range []struct {
		listen string
		seeds  []netip.AddrPort
		want   string // empty: any address that others can reach
	}{
		{"10.9.9.9", nil, "10.9.9.9"},
		{"10.9.9.9", []netip.AddrPort{loopback(1)}, "10.9.9.9"},
		{"0.0.0.0", []netip.AddrPort{loopback(1)}, "127.0.0.1"},
		{"::", []netip.AddrPort{{}, loopback(1)}, "127.0.0.1"},
		{"0.0.0.0", nil, ""},
	} {
		got, err := advertisedIP(netip.MustParseAddr(c.listen), c.seeds)
		switch {
		case c.want == "" && err != nil: // this host has only addresses of its own
		case err != nil, c.want != "" && got.String() != c.want, c.want == "" && (!got.IsGlobalUnicast() || got.Is4In6()):
			t.Errorf("listening at %s with the seeds %v: %v, %v; expected %q", c.listen, c.seeds, got, err, c.want)
		}
	}
}

// The first key of a fabric seals, and each opens.
func TestAKeyringSealsWithTheFirstKey(t *testing.T) {
	keys := testKeys(t, 3)
	ring, err := keyring(keys)
	if err != nil || string(ring.GetPrimaryKey()) != string(keys[0][:]) || len(ring.GetKeys()) != 3 {
		t.Fatalf("%v", err)
	}
	for i := range keys {
		bad := slices.Clone(keys)
		bad[i] = Key{}
		if _, err := keyring(bad); err == nil {
			t.Errorf("a key of zeros in place %d is taken", i+1)
		}
	}
}
