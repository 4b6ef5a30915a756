package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/trust"
)

// linesOf returns a log of peers, and a function that returns the lines since its last call.
func linesOf() (l *peerLog, lines func() []string) {
	var out bytes.Buffer
	l = &peerLog{d: &Daemon{log: slog.New(slog.NewTextHandler(&out, nil))}, up: map[nic.NodeInfo]int{}, silent: map[link.Addr]bool{},
		refused: map[refusalKey]toldRefusal{}, elsewhere: map[link.Addr]link.Addr{}}
	return l, func() (all []string) {
		for line := range strings.Lines(out.String()) {
			all = append(all, line)
		}
		out.Reset()
		return all
	}
}

// wantLines expects one line for each text, in any order, that has all words of the text.
func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d lines, %q; expected %d", what, len(got), got, len(want))
		return
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(line string) bool {
			return !slices.ContainsFunc(strings.Split(w, " … "), func(part string) bool { return !strings.Contains(line, part) })
		}) {
			t.Errorf("%s: %q; expected a line with %q", what, got, w)
		}
	}
}

var addrA, addrB = netip.MustParseAddrPort("10.0.0.1:7700"), netip.MustParseAddrPort("10.0.0.2:7700")

func TestEachChangeOfAPeerIsOneLineOfTheLog(t *testing.T) {
	l, lines := linesOf()
	up := nic.NodeInfo{ID: 9, Incarnation: 5, Addr: addrA, Up: true, WholeFrame: 9000, Processes: 1}
	look := func(what string, all []nic.NodeInfo, want ...string) {
		t.Helper()
		l.sessions(all)
		wantLines(t, what, lines(), want...)
	}
	with := func(change func(*nic.NodeInfo)) []nic.NodeInfo {
		n := up
		change(&n)
		return []nic.NodeInfo{n}
	}
	down := func(why error) []nic.NodeInfo {
		return with(func(n *nic.NodeInfo) { n.Up, n.Ended = false, why })
	}
	look("a node that has not answered", down(nil))
	look("a peer that is up", []nic.NodeInfo{up}, "level=INFO … peer is up … address=10.0.0.1:7700 … incarnation=5 … guard=plain")
	look("no news", with(func(n *nic.NodeInfo) { n.Processes, n.RTTNanos = 4, 77 }))
	look("a narrow path", with(func(n *nic.NodeInfo) { n.Narrow = 1400 }), "level=WARN … carries less than both ends … frame=1400 … of=9000")
	look("the same path", with(func(n *nic.NodeInfo) { n.Narrow = 1400 }))
	look("a wide path", []nic.NodeInfo{up}, "level=INFO … carries whole frames again … frame=9000")
	look("another address", with(func(n *nic.NodeInfo) { n.Addr = addrB }), "peer has moved … from=10.0.0.1:7700 … address=10.0.0.2:7700")
	look("another life", with(func(n *nic.NodeInfo) { n.Addr, n.Incarnation = addrB, 6 }), "peer is down … its NIC has restarted", "peer is up … incarnation=6")
	look("a goodbye", down(rel.ErrGoodbye), "level=INFO … peer is down … its NIC was closed")
	look("a second look", down(rel.ErrGoodbye))
	look("up again, at one of its addresses", with(func(n *nic.NodeInfo) { n.NoAnswerAt = "10.0.0.7" }),
		"level=WARN … answers at one address of its host … no_answer_at=10.0.0.7", "peer is up")
	look("silence", down(rel.ErrUnreachable), "level=WARN … peer is down … it is silent")
	look("up with a narrow path", with(func(n *nic.NodeInfo) { n.Narrow = 1400 }), "peer is up", "carries less than both ends")
	look("no node any more", nil, "level=INFO … neither the list of nodes nor the gossip")
}

func TestASilentNodeAndFramesFromElsewhereAreToldOnce(t *testing.T) {
	l, lines := linesOf()
	silent := nic.NodeInfo{Addr: addrA, Ended: rel.ErrUnreachable}
	look := func(what string, n nic.NodeInfo, want ...string) {
		t.Helper()
		l.elsewheres([]nic.NodeInfo{n})
		l.silence([]nic.NodeInfo{n})
		wantLines(t, what, lines(), want...)
	}
	look("a node that is tried", nic.NodeInfo{Addr: addrA})
	look("one that does not answer", silent, "a node does not answer … address=10.0.0.1:7700")
	look("again", silent)
	look("one that was up before", nic.NodeInfo{Addr: addrB, Ended: rel.ErrUnreachable, Incarnation: 4})
	look("it is up", nic.NodeInfo{Addr: addrA, Up: true})
	look("it does not answer again", silent, "a node does not answer")
	from := silent
	from.Elsewhere = addrB
	look("frames from elsewhere", from, "frames of a peer come from another address … from=10.0.0.2:7700")
	look("the same", from)
	from.Elsewhere = netip.MustParseAddrPort("10.0.0.3:1")
	look("from another place", from, "frames of a peer come from another address … from=10.0.0.3:1")
	look("no more", silent)
	look("again from there", from, "frames of a peer come from another address")
	l.outside.told = map[outsider]bool{{addrB, rel.ErrFabric}: true}
	look("one that is refused", nic.NodeInfo{Addr: addrB, Ended: rel.ErrUnreachable})
}

func TestARefusedNICIsToldAgainAfterAWhileIfItStillCalls(t *testing.T) {
	l, lines := linesOf()
	now := time.Unix(1000, 0)
	look := func(what string, all []nic.Refusal, want ...string) {
		t.Helper()
		l.refusals(all, []nic.NodeInfo{{ID: 9, Incarnation: 77}, {ID: 8, Incarnation: 66}}, now)
		wantLines(t, what, lines(), want...)
	}
	refused := func(why error, times uint64) []nic.Refusal {
		return []nic.Refusal{{NIC: 9, Addr: addrA, Why: why, Times: times}}
	}
	look("an old incarnation", refused(rel.ErrOutdated, 1), "its incarnation was larger before … before=77")
	look("the same", refused(rel.ErrOutdated, 1))
	now = now.Add(repeatRefusalAfter)
	look("more, and the time is not over", refused(rel.ErrOutdated, 2))
	now = now.Add(1)
	look("none since", refused(rel.ErrOutdated, 1))
	look("more", refused(rel.ErrOutdated, 3), "its incarnation was larger before")
	look("more at once", refused(rel.ErrOutdated, 9))
	look("another reason", refused(names.ErrUnknown, 1), "is not in the configuration")
	look("a third", refused(names.ErrKnownID, 1), "another one with its id is up")
	look("of package trust", refused(errors.New("no certificate"), 1), "is not trusted … no certificate")
	look("another fabric", refused(rel.ErrFabric, 1), "mac1 does not verify")
	look("another fabric again", refused(rel.ErrFabric, 2))
	look("a plain link", refused(rel.ErrPlain, 1), "its link is plain, and that of this NIC is sealed")
	look("a sealed link", refused(rel.ErrSealed, 1), "its link is sealed, and that of this NIC is plain")
}

// Any host can send frames of another fabric from many addresses.
func TestTheLogTellsOfSoManyAddressesOfOutsiders(t *testing.T) {
	l, lines := linesOf()
	now := time.Unix(1000, 0)
	call := func(i int) {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 7700)
		l.outside.tell(l.d.log, &nic.Refusal{Addr: at, Why: rel.ErrFabric}, now)
	}
	for i := range limits.Refusals + 5 {
		call(i)
	}
	// with the line that says that no more follow
	if n := len(lines()); n != limits.Refusals+1 {
		t.Errorf("%d lines; expected %d", n, limits.Refusals+1)
	}
	now = now.Add(repeatRefusalAfter - 1)
	call(limits.Refusals + 6)
	if got := lines(); len(got) != 0 {
		t.Errorf("a moment before the time is over: %q", got)
	}
	now = now.Add(1)
	call(limits.Refusals + 7)
	if got := lines(); len(got) != 1 || len(l.outside.told) != 1 {
		t.Errorf("when the time is over: %q, %d addresses", got, len(l.outside.told))
	}
}

// Programs act on the cause, so it must not depend on the text.
func TestACheckHasTheCauseOfARefusal(t *testing.T) {
	for why, want := range map[error]string{
		nil: "", rel.ErrFabric: ctl.CauseFabricKey, rel.ErrPlain: ctl.CausePlain, rel.ErrSealed: ctl.CausePlain,
		names.ErrOwnID: ctl.CauseOwnID, trust.ErrOwnID: ctl.CauseOwnID, names.ErrKnownID: ctl.CauseKnownID,
		trust.ErrExpired: ctl.CauseCertificate, trust.ErrNotYetValid: ctl.CauseCertificate,
		names.ErrUnknown: ctl.CauseRefused, trust.ErrRevoked: ctl.CauseRefused,
	} {
		if got := causeOf(why); got != want {
			t.Errorf("%v: %q; expected %q", why, got, want)
		}
	}
}

func TestACheckSaysWhyTheNICThereIsRefused(t *testing.T) {
	for why, want := range map[error]string{
		names.ErrOwnID: "has the id of this one", names.ErrUnknown: "not in the configuration", rel.ErrOutdated: "its incarnation was larger before",
		names.ErrKnownID: "another one with its id is up", rel.ErrFabric: "mac1 does not verify", errors.New("no certificate"): "no certificate",
	} {
		all := []nic.Refusal{{NIC: 8, Addr: addrB, Why: errors.New("another")}, {NIC: 9, Addr: addrA, Why: why}}
		if got := refusedAt(all, 9, addrA); !strings.Contains(got, want) {
			t.Errorf("%v: %q; expected %q", why, got, want)
		}
		if got := refusedAt(all[1:], 9, addrB); (got != "") != errors.Is(why, rel.ErrOutdated) {
			t.Errorf("%v, at another address: %q", why, got)
		}
		if got := refusedAt(all[1:], 7, addrB); got != "" {
			t.Errorf("%v, of another NIC: %q", why, got)
		}
	}
}
