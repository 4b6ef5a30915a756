package vni

import (
	"regexp"
	"strings"
	"testing"
)

func TestEveryCounterIsDescribed(t *testing.T) {
	good := regexp.MustCompile(`^[A-Z].*[^.\s]$`)
	said := make(map[string]string)
	for _, d := range Descriptions() {
		if !good.MatchString(d.Help) || strings.Contains(d.Help, "|") {
			t.Errorf("%s: %q; want one sentence without its full stop", d.Name, d.Help)
		}
		if other := said[d.Help]; other != "" {
			t.Errorf("%s is described as %s is", d.Name, other)
		}
		said[d.Help] = d.Name
		if d.Unit != Bytes && (strings.Contains(d.Name, "bytes") || strings.HasPrefix(d.Help, "Bytes")) {
			t.Errorf("%s counts %v, and its description is %q", d.Name, d.Unit, d.Help)
		}
	}
}

func TestLevelsAndPartsOfTheNICShowInTheName(t *testing.T) {
	for c, want := range map[Counter]Description{
		RelPeersNow: {Name: "rel"}, DropMAC: {Name: "drop"}, NICStagedBytesNow: {Name: "nic", Unit: Bytes},
		LinkBytesIn: {Name: "link", Unit: Bytes}, NICCopiedOut: {Name: "nic", Unit: Bytes}, RelSends: {Name: "rel"},
	} {
		d := c.Describe()
		if d.Part() != want.Name || d.Unit != want.Unit || d.Level() != strings.HasSuffix(c.String(), "_now") {
			t.Errorf("%v is of %s, in %v, a level: %v", c, d.Part(), d.Unit, d.Level())
		}
	}
}
