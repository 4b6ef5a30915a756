package registry

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestANICIDIsWrittenAsEightDecimalOctets(t *testing.T) { // decision 1
	const text = "0:0:0:96:221:127:255:140"
	id, err := ParseNICID(text)
	if err != nil || id != 0x0000_0060_dd7f_ff8c || id.String() != text {
		t.Errorf("%s is %#x and written %v, %v", text, uint64(id), id, err)
	}
	if id, err := ParseNICID("255:255:255:255:255:255:255:255"); err != nil || id != 1<<64-1 {
		t.Errorf("the largest is %#x, %v", uint64(id), err)
	}
	for _, bad := range []string{"", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "256:0:0:0:0:0:0:1", "-1:0:0:0:0:0:0:1", "+1:0:0:0:0:0:0:1",
		"01:0:0:0:0:0:0:1", "a:0:0:0:0:0:0:1", ":0:0:0:0:0:0:1", "0:0:0:0:0:0:0:0", " 1:0:0:0:0:0:0:1"} {
		if id, err := ParseNICID(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q is taken for %v, or refused without naming it: %v", bad, id, err)
		}
	}
}

func TestNodesAreReadFromText(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.2:7700":                          "10.0.0.2:7700",
		"[fe80::2]:7700":                         "[fe80::2]:7700",
		"[::ffff:10.0.0.2]:7700":                 "10.0.0.2:7700",
		"0:0:0:96:221:127:255:140@10.0.0.2:7700": "0:0:0:96:221:127:255:140 at 10.0.0.2:7700",
	} {
		if n, err := ParseNode(in); err != nil || n.String() != want {
			t.Errorf("%s is %v, %v; want %s", in, n, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                `address "": expected IP:PORT`,
		"host:7700":       `address "host:7700": expected IP:PORT`,
		"10.0.0.2":        `address "10.0.0.2": expected IP:PORT`,
		"7@10.0.0.2:7700": `NIC id "7": expected eight decimal octets`,
	} {
		if n, err := ParseNode(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %q", in, n, err, want)
		}
	}
}

func TestAStaticListChangesForNobody(t *testing.T) {
	in := []Node{{Addr: mustAddr("10.0.0.1:7700")}}
	s, err := NewStatic(in)
	if err != nil {
		t.Fatal(err)
	}
	in[0].ID, s.Nodes()[0].ID = 5, 6
	if s.Nodes()[0].ID != 0 {
		t.Error("the list is shared with its maker or its reader")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Watch(ctx, func([]Node) { t.Error("changed") }); err != nil || ctx.Err() == nil {
		t.Errorf("the watch ends with %v, before its context: %v", err, ctx.Err() == nil)
	}
}

func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
