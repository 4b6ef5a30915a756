package gossip

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/registry"
)

var (
	hereA = netip.MustParseAddrPort("10.0.0.1:7700")
	hereB = netip.MustParseAddrPort("10.0.0.2:7700")
	hereC = netip.MustParseAddrPort("10.0.0.3:7700")
)

// decision 1: a second NIC with a known id is refused
func TestClaimsToOneIDAreJudged(t *testing.T) {
	type claims []claim
	for _, c := range []struct {
		name   string
		holder netip.AddrPort // before
		claims claims
		want   netip.AddrPort // zero: none
		losers int
	}{
		{"one that claims has it", netip.AddrPort{}, claims{{1, 9, hereA, claiming}}, hereA, 0},
		{"one that starts does not have it yet", netip.AddrPort{}, claims{{1, 9, hereA, starting}}, netip.AddrPort{}, 0},
		{"one that was refused does not", netip.AddrPort{}, claims{{1, 9, hereA, refused}}, netip.AddrPort{}, 0},
		{"the older life of two has it", netip.AddrPort{}, claims{{1, 9, hereA, claiming}, {1, 8, hereB, claiming}}, hereB, 1},
		{"of equal lives the lower address", netip.AddrPort{}, claims{{1, 9, hereB, claiming}, {1, 9, hereA, claiming}}, hereA, 1},
		{"the NIC that has it keeps it though an older life comes", hereA, claims{{1, 9, hereA, claiming}, {1, 8, hereB, claiming}}, hereA, 1},
		{"the NIC that has it keeps it while it starts again", hereA, claims{{1, 9, hereA, starting}, {1, 8, hereB, claiming}}, hereA, 1},
		{"the NIC that has it loses it by giving it up", hereA, claims{{1, 9, hereA, refused}, {1, 10, hereB, claiming}}, hereB, 1},
		{"the NIC that has it loses it by being gone", hereA, claims{{1, 10, hereB, claiming}}, hereB, 0},
		{"two lives at one address are one NIC", netip.AddrPort{}, claims{{1, 8, hereA, claiming}, {1, 9, hereA, claiming}}, hereA, 0},
		{"the later life at an address speaks", hereA, claims{{1, 9, hereA, refused}, {1, 8, hereA, claiming}, {1, 10, hereC, claiming}}, hereC, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := holders{}
			if c.holder.IsValid() {
				h[1] = c.holder
			}
			nodes, disputes := h.judge(c.claims)
			var want []registry.Node
			if c.want.IsValid() {
				want = []registry.Node{{ID: 1, Addr: c.want}}
			}
			if !slices.Equal(nodes, want) || len(disputes) != c.losers {
				t.Errorf("nodes %v, disputes %v; want %v and %d", nodes, disputes, want, c.losers)
			}
		})
	}
}

// Members tell their claims in any order. An old member judges like a new one, unless the id has
// changed hands.
func TestJudgementDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) claim {
			return claim{
				id:          registry.NICID(rapid.IntRange(1, 3).Draw(t, "id")),
				incarnation: rapid.Uint64Range(1, 4).Draw(t, "incarnation"),
				addr:        rapid.SampledFrom([]netip.AddrPort{hereA, hereB, hereC}).Draw(t, "address"),
				stance:      stance(rapid.IntRange(0, 2).Draw(t, "stance")),
			}
		}), 0, 8).Draw(t, "claims")
		claims = slices.CompactFunc(slices.Clone(claims), func(a, b claim) bool { return a == b })
		distinct := map[string]bool{} // two claims of one life cannot differ in stance
		claims = slices.DeleteFunc(claims, func(c claim) bool {
			k := fmt.Sprint(c.id, c.incarnation, c.addr)
			seen := distinct[k]
			distinct[k] = true
			return seen
		})
		h := holders{}
		first, _ := h.judge(claims)
		again, _ := h.judge(claims)
		if !slices.Equal(first, again) {
			t.Fatalf("the same claims give %v, then %v", first, again)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
		other, _ := holders{}.judge(claims)
		if !slices.Equal(first, other) {
			t.Fatalf("in another order, %v instead of %v", other, first)
		}
		for i := range first {
			if i > 0 && first[i-1].ID >= first[i].ID {
				t.Fatalf("ids out of order or twice: %v", first)
			}
		}
	})
}

func TestANICFindsOutWhetherItsIDIsItsOwn(t *testing.T) {
	now := time.Unix(1000, 0)
	const grace = 10 * time.Second
	of := func(at netip.AddrPort, incarnation uint64, s stance) claim { return claim{1, incarnation, at, s} }
	for _, c := range []struct {
		name    string
		stance  stance
		since   time.Duration // ago
		others  []claim
		want    stance
		against netip.AddrPort
	}{
		{"no other NIC is there", starting, 0, nil, claiming, netip.AddrPort{}},
		{"another has it, of a later life by its clock", starting, 0, []claim{of(hereB, 99, claiming)}, refused, hereB},
		{"another starts, too", starting, 0, []claim{of(hereB, 1, starting)}, claiming, netip.AddrPort{}},
		{"another was refused", starting, 0, []claim{of(hereB, 1, refused)}, claiming, netip.AddrPort{}},
		{"its own earlier life is still a member", starting, 0, []claim{of(hereA, 1, claiming)}, claiming, netip.AddrPort{}},
		{"another NIC has another id", starting, 0, []claim{{2, 1, hereB, claiming}}, claiming, netip.AddrPort{}},
		{"it meets an older one after a partition", claiming, 0, []claim{of(hereB, 4, claiming)}, refused, hereB},
		{"it meets a younger one after a partition", claiming, 0, []claim{of(hereB, 6, claiming)}, claiming, netip.AddrPort{}},
		{"it was refused, and the other is still there", refused, grace, []claim{of(hereB, 6, claiming)}, refused, hereB},
		{"it was refused, and the other has just gone", refused, grace - 1, nil, refused, netip.AddrPort{}},
		{"it was refused, and the other is starting again", refused, grace - 1, []claim{of(hereB, 7, starting)}, refused, netip.AddrPort{}},
		{"it was refused, and the other has long gone", refused, grace, nil, claiming, netip.AddrPort{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := self{claim: of(hereA, 5, c.stance), grace: grace, since: now.Add(-c.since)}
			again := s.look(now, append(c.others, s.claim))
			if s.stance != c.want || s.by != c.against {
				t.Errorf("it is %v because of %v; want %v because of %v", s.stance, s.by, c.want, c.against)
			}
			if (again > 0) != (s.stance == refused) {
				t.Errorf("looks again after %v though it is %v", again, s.stance)
			}
		})
	}
}

func TestAnIDIsTakenOverAFailureTimeoutAfterTheOtherHasGone(t *testing.T) {
	const grace = 10 * time.Second
	now := time.Unix(1000, 0)
	s := self{claim: claim{1, 5, hereA, starting}, grace: grace}
	other := claim{1, 4, hereB, claiming}
	if s.look(now, []claim{s.claim, other}); s.stance != refused {
		t.Fatalf("beside another it is %v", s.stance)
	}
	now = now.Add(grace - time.Millisecond) // nothing has changed since
	for _, step := range []struct {
		after time.Duration
		want  stance
	}{{0, refused}, {grace - 1, refused}, {1, claiming}} {
		now = now.Add(step.after)
		if again := s.look(now, []claim{s.claim}); s.stance != step.want || step.want == refused && now.Add(again).Sub(time.Unix(1000, 0)) < 2*grace-time.Millisecond {
			t.Errorf("%v later it is %v, and looks again after %v; want %v", step.after, s.stance, again, step.want)
		}
	}
}
