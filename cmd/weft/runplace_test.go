package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
)

// placed formats hosts as "a:0-3 b:4-4".
func placed(hosts []launch.Host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, fmt.Sprintf("%s:%d-%d", h.Name, h.Ranks[0], h.Ranks[len(h.Ranks)-1]))
	}
	return strings.Join(all, " ")
}

func TestRanksArePackedInTheOrderOfTheHosts(t *testing.T) {
	places := []runPlace{{name: "a", slots: 4, free: 2}, {name: "b", slots: 4, free: 0}, {name: "c", slots: 4, free: 4}}
	for _, c := range []struct {
		n, perNode int
		over       bool
		want       string
		how        string
	}{
		{n: 1, want: "a:0-0", how: "packed"},
		{n: 2, want: "a:0-1", how: "packed"},
		{n: 5, want: "a:0-1 c:2-4", how: "packed"},
		{n: 6, want: "a:0-1 c:2-5", how: "packed"},
		{n: 6, over: true, want: "a:0-1 c:2-5", how: "packed"},
		{n: 9, over: true, want: "a:0-2 b:3-3 c:4-8", how: "oversubscribed"},
		{n: 6, perNode: 2, want: "a:0-1 b:2-3 c:4-5", how: "per-node"},
		{n: 4, perNode: 3, want: "a:0-2 b:3-3", how: "per-node"},
	} {
		hosts, how, err := placeRanks(places, c.n, c.perNode, c.over)
		if err != nil || placed(hosts) != c.want || how != c.how {
			t.Errorf("%d ranks, %d a node, oversubscribed %v: %s %s, %v; expected %s %s", c.n, c.perNode, c.over, placed(hosts), how, err, c.want, c.how)
		}
	}
	if hosts, how, err := placeRanks(places[2:], 3, 0, false); err != nil || placed(hosts) != "c:0-2" || how != "one-host" {
		t.Errorf("3 ranks on one host: %s %s, %v; expected c:0-2 one-host", placed(hosts), how, err)
	}
}

func TestTooFewSlotsAreRefusedWithThoseOfEachHostAndTheCure(t *testing.T) {
	_, _, err := placeRanks([]runPlace{{name: "a", slots: 4, free: 2}, {name: "c", slots: 1, free: -3}}, 8, 0, false)
	if err == nil {
		t.Fatal("8 ranks were placed on 2 slots")
	}
	for _, want := range []string{"8 ranks need 8 slots; 2 are free", "host a: 2 of 4 slots free", "host c: 0 of 1 slot free", "--oversubscribe"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal lacks %q:\n%v", want, err)
		}
	}
	_, _, err = placeRanks([]runPlace{{name: "a", slots: 4}, {name: "b", slots: 4}}, 1, 0, false)
	if want := "1 rank needs 1 slot; 0 are free:"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v; expected %s", err, want)
	}
	_, _, err = placeRanks(make([]runPlace, 3), 8, 2, true)
	if want := "8 ranks at 2 a node need 4 nodes; there are 3; lower -n, raise --per-node, or add nodes"; err == nil || err.Error() != want {
		t.Errorf("error %v; expected %s", err, want)
	}
}

// If a host does not tell its slots, neither fewer ranks nor a longer wait helps. The role
// observe would not let it start ranks.
func TestAHostThatDoesNotTellItsSlotsIsTheCauseAndNotTheSlots(t *testing.T) {
	refused := slotsErrorText(fmt.Errorf("%w: NIC 7 may not look", ctl.ErrRefused), 7)
	silent := slotsErrorText(fmt.Errorf("%w: NIC 8 is unreachable", ctl.ErrNoAnswer), 7)
	_, _, err := placeRanks([]runPlace{{name: "h1", slots: 2, free: 2}, {name: "h2", why: refused}, {name: "h3", why: silent}}, 4, 0, false)
	if err == nil {
		t.Fatal("4 ranks were placed on 2 slots")
	}
	for _, want := range []string{"2 hosts of 3 do not report", "the others have 2 free for 4 ranks", "host h1: 2 of 2 slots free", "host h2: it refuses to report its slots",
		"weft fabric grant 0:0:0:0:0:0:0:7 run=", "host h3: no answer: NIC 8 is unreachable"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal lacks %q:\n%v", want, err)
		}
	}
	for _, wrong := range []string{"need 4 slots", "--oversubscribe", "observe"} {
		if strings.Contains(err.Error(), wrong) {
			t.Errorf("the refusal says %q:\n%v", wrong, err)
		}
	}
}
