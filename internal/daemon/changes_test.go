package daemon

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// texts returns changes in the form of the tools.
func texts(all []ctl.Change) (l []string) {
	for _, c := range all {
		l = append(l, c.String())
	}
	return l
}

// Each key of the file but the nodes and the named links is compared: a key that is added to
// Config is, too.
func TestEachKeyOfAConfigurationIsComparedAndEachReloadableOneIsAKey(t *testing.T) {
	c, err := Parse([]byte(wholeConfig))
	if err != nil {
		t.Fatal(err)
	}
	values := c.values()
	for _, key := range strings.Split("id socket state_dir link prefer listen mtu gso registry torus position static unreachable_after "+
		"max_processes staging_bytes region_bytes allow_uids allow_gids program_uids slots key_files certificate authorities revocations plain log "+
		"capture capture_limit capture_snap capture_secrets vni.commands vni.prepared gossip.seeds gossip.failure_timeout programs.plain_resident "+
		"grants.0:0:0:0:0:0:0:2", " ") {
		if _, compared := values[key]; !compared {
			t.Errorf("%s is not compared", key)
		}
	}
	if values["unreachable_after"] != "500ms" || values["gso"] != "false" || values["grants.0:0:0:0:0:0:0:2"] != "[observe run=alice,bob]" {
		t.Errorf("the values are %v", values)
	}
	for key := range reloadable {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(values)), func(k string) bool { return k == key || strings.HasPrefix(k, key+".") }) {
			t.Errorf("%s is reloadable, and no key of the file", key)
		}
	}
	if applied, restart := different(&settings{config: c}, &settings{config: c}); len(applied)+len(restart) != 0 {
		t.Errorf("a configuration differs from itself by %v and %v", applied, restart)
	}
}

func TestAChangeIsAppliedOrNeedsARestartAndFurtherLinksReportOnlyTheirOwnKeys(t *testing.T) {
	parse := func(text string) Config {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	now := parse("mtu = 1400\nlog = \"debug\"\nallow_uids = [7]\nslots = 2\nmax_processes = 10\n[grants]\n\"0:0:0:0:0:0:0:2\" = []\n")
	next := parse("mtu = 9000\nallow_uids = [7, 8]\nslots = 2\n[grants]\n[gossip]\n[vni]\ncontexts = 32\n")
	applied, restart := different(&settings{config: now}, &settings{config: next})
	if got, want := texts(applied), []string{"allow_uids: [7] → [7 8]", "grants.0:0:0:0:0:0:0:2: [] → not set", "log: debug → not set"}; !slices.Equal(got, want) {
		t.Errorf("applied %q; expected %q", got, want)
	}
	for _, want := range []string{"gossip: not set → set", "max_processes: 10 → not set", "mtu: 1400 → 9000", "vni.contexts: not set → 32"} {
		if !slices.Contains(texts(restart), want) {
			t.Errorf("a restart is needed for %q; expected %q among them", texts(restart), want)
		}
	}
	now.besides, next.besides = true, true
	applied, restart = different(&settings{config: now}, &settings{config: next})
	if got, want := append(texts(applied), texts(restart)...), []string{"gossip: not set → set", "mtu: 1400 → 9000"}; !slices.Equal(got, want) {
		t.Errorf("a further link reports %q; expected %q", got, want)
	}
}

func TestNodesAreComparedByTheirPlaceAndTheirID(t *testing.T) {
	at := func(n int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:7700", n)) }
	got := texts(changedNodes(
		[]registry.Node{{Addr: at(1)}, {Addr: at(2), ID: 2}, {Addr: at(3), Name: "c"}, {Addr: at(4)}},
		[]registry.Node{{Addr: at(1)}, {Addr: at(5), ID: 2}, {Addr: at(3), Name: "d"}, {Addr: at(6)}}))
	want := []string{
		"node: 0:0:0:0:0:0:0:2 at 10.0.0.2:7700 → 0:0:0:0:0:0:0:2 at 10.0.0.5:7700",
		"node: 10.0.0.3:7700, name c → 10.0.0.3:7700, name d",
		"node: 10.0.0.4:7700 → not set", "node: not set → 10.0.0.6:7700",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the nodes differ by\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheReportOfAReloadFitsIntoOneReply(t *testing.T) {
	long := ctl.Change{Link: strings.Repeat("l", ctl.MaxLinkName), Key: strings.Repeat("k", 60),
		Was: shortened(strings.Repeat("\x01", 1000)), Is: shortened(strings.Repeat("ä", 1000))}
	var many []ctl.Change
	for range 1000 {
		many = append(many, long)
	}
	r := report(many, many[:3])
	if len(r.Restart) != 3 || len(r.Applied) == 0 || r.Left != 1000-len(r.Applied) {
		t.Errorf("%d and %d changes, %d are left", len(r.Applied), len(r.Restart), r.Left)
	}
	for _, r := range []*ctl.Reloaded{r, report(nil, many)} {
		if b, err := (&ctl.Reply{Reloaded: r}).Encode(); err != nil || len(b) > ctl.MaxMessage {
			t.Errorf("a reply of %d bytes: %v", len(b), err)
		}
	}
}
