package doctor

import (
	"net/netip"
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
