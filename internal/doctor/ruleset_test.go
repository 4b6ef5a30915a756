package doctor

import (
	"net/netip"
	"strings"
	"testing"
)

// A rule counts only if it is known to drop each frame of the NIC.
func TestARuleThatMayNotMatchIsNotBlamed(t *testing.T) {
	k := packet{hook: "input", local: 7700, remote: netip.MustParseAddrPort("10.0.0.2:7700")}
	match := func(op, left, right string) string {
		return `{"match":{"op":"` + op + `","left":` + left + `,"right":` + right + `}}`
	}
	const dport, saddr = `{"payload":{"protocol":"udp","field":"dport"}}`, `{"payload":{"protocol":"ip","field":"saddr"}}`
	for rule, drops := range map[string]bool{
		match("==", dport, `7700`) + `,{"drop":null}`:                                            true,
		match("!=", dport, `53`) + `,{"drop":null}`:                                              true,
		match("==", saddr, `{"prefix":{"addr":"10.0.0.0","len":8}}`) + `,{"reject":null}`:        true,
		`{"counter":null},{"drop":null}`:                                                         true,
		match("==", saddr, `"10.0.0.3"`) + `,{"drop":null}`:                                      false,
		match("==", dport, `{"set":[53,{"range":[1,9]}]}`) + `,{"drop":null}`:                    false,
		match("!=", dport, `"@open"`) + `,{"drop":null}`:                                         false,
		match("==", `{"payload":{"protocol":"tcp","field":"dport"}}`, `7700`) + `,{"drop":null}`: false,
		match("in", `{"ct":{"key":"state"}}`, `"invalid"`) + `,{"drop":null}`:                    false,
		match("==", `{"meta":{"key":"iifname"}}`, `"eth9"`) + `,{"drop":null}`:                   false,
		match("==", `{"meta":{"key":"l4proto"}}`, `"udp"`) + `,{"accept":null},{"drop":null}`:    false,
		`{"limit":{"rate":5}},{"drop":null}`:                                                     false,
		`{"jump":{"target":"in"}}`:                                                               false, // a loop
		`{"match":7},{"drop":null}`:                                                              false,
		`{"vmap":{"key":1,"data":2}}`:                                                            false,
		`{"return":null},{"drop":null}`:                                                          false,
		`{"xt":{"type":"match","name":"comment"}},{"drop":null}`:                                 false,
	} {
		text := `{"nftables":[{"metainfo":{}},{"chain":{"family":"inet","table":"f","name":"in","hook":"input","policy":"accept"}},
			{"rule":{"family":"inet","table":"f","chain":"in","expr":[` + rule + `]}}]}`
		r, err := parseRuleset([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.drops(&k)) > 0; got != drops {
			t.Errorf("%s: drops the frames: %v; expected %v", rule, got, drops)
		}
	}
	if _, err := parseRuleset([]byte("no JSON")); err == nil {
		t.Error("text without JSON is a ruleset")
	}
}

// A rule that may accept the frame clears the policy of its chain. One that certainly does not, or
// that may only drop it, does not.
func TestAPolicyIsBlamedOnlyIfNoRuleMayAccept(t *testing.T) {
	match := func(op, left, right string) string {
		return `{"match":{"op":"` + op + `","left":` + left + `,"right":` + right + `}}`
	}
	const accept, drop, dport = `,{"accept":null}`, `,{"drop":null}`, `{"payload":{"protocol":"udp","field":"dport"}}`
	const tcp, saddr4 = `{"payload":{"protocol":"tcp","field":"dport"}}`, `{"payload":{"protocol":"ip","field":"saddr"}}`
	const established, eth = `{"ct":{"key":"state"}}`, `{"meta":{"key":"iifname"}}`
	far, far6 := netip.MustParseAddrPort("10.0.0.2:7700"), netip.MustParseAddrPort("[fd00::2]:7700")
	for _, c := range []struct {
		rule  string
		from  netip.AddrPort
		drops bool
	}{
		{`{"counter":null}`, far, true},
		{match("==", tcp, `22`) + accept, far, true},
		{match("!=", tcp, `22`) + accept, far, true},
		{match("==", dport, `53`) + accept, far, true},
		{match("==", dport, `{"set":[{"elem":{"val":7700,"comment":"weft"}}]}`) + accept, far, false},
		{match("==", dport, `{"set":[53,{"odd":1}]}`) + accept, far, false},
		{match("==", dport, `"@open"`) + accept, far, false},
		{match("in", established, `["established","related"]`) + accept, far, false},
		{match("in", established, `"invalid"`) + drop, far, true},
		{match("==", eth, `"eth0"`) + `,` + match("==", dport, `7700`) + accept, far, false},
		{match("==", eth, `"eth0"`) + `,` + match("==", dport, `53`) + accept, far, true},
		{match("==", eth, `"lo"`) + accept, far, true},
		{match("==", eth, `"lo"`) + accept, netip.MustParseAddrPort("127.0.0.1:7700"), false},
		{match("==", eth, `"eth0"`) + `,{"goto":{"target":"open"}}`, far, false},
		{match("==", eth, `"eth0"`) + `,{"jump":{"target":"open"}}`, far, false},
		{match("==", eth, `"eth0"`) + `,{"jump":{"target":"shut"}}`, far, true},
		{match("==", eth, `"eth0"`) + `,{"jump":{"target":"empty"}}`, far, true},
		{match("==", eth, `"eth0"`) + `,{"return":null}`, far, false},
		{`{"jump":{"target":"open"}}`, far, false},
		{`{"goto":{"target":"empty"}}`, far, true},
		{`{"vmap":{"key":1,"data":2}}`, far, false},
		{`{"xt":null}`, far, false},
		{`{"xt":null},{"accept":null}`, far, false},
		{match("==", tcp, `22`) + `,{"xt":null},{"accept":null}`, far, true},
		{`{"limit":{"rate":5}},{"accept":null}`, far, false},
		{`{"limit":{"rate":5}},{"drop":null}`, far, true},
		{match("!=", saddr4, `"10.0.0.9"`) + accept, far, false},
		{match("!=", saddr4, `"10.0.0.9"`) + accept, far6, true}, // it is a rule for IPv4
		{match("==", saddr4, `{"range":["10.0.0.1","10.0.0.3"]}`) + accept, far, false},
		{match("==", saddr4, `{"range":["10.0.0.3","10.0.0.9"]}`) + accept, far, true},
	} {
		var text strings.Builder
		text.WriteString(`{"nftables":[{"chain":{"family":"inet","table":"f","name":"in","hook":"input","policy":"drop"}}`)
		for _, u := range []struct{ chain, rule string }{{"in", c.rule}, {"open", `{"accept":null}`}, {"shut", `{"drop":null}`}} {
			text.WriteString(`,{"rule":{"family":"inet","table":"f","chain":"` + u.chain + `","expr":[` + u.rule + `]}}`)
		}
		r, err := parseRuleset([]byte(text.String() + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		k := packet{hook: "input", local: 7700, remote: c.from}
		if got := len(r.drops(&k)) > 0; got != c.drops {
			t.Errorf("%s and the policy drop, from %v: drops the frames: %v; expected %v", c.rule, c.from, got, c.drops)
		}
	}
}
