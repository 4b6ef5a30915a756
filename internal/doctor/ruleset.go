package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ruleset is the packet filter of a host, from the output of `nft -j list ruleset`:
//
//	packet ─► each base chain of its hook ─► rules in order ─► drop, reject ─► the chain drops it
//	             ▲        accept, or the end of a chain whose policy is accept ─► next base chain
//	             └─ jump, goto: the rules of another chain
//
// It knows matches of protocol, ports and addresses. It treats a rule with another match, such as
// the state of a connection or a named set, as one that does not match. So it reports a rule only
// if the rule drops every such frame.
type ruleset struct {
	chains []chain
	rules  map[chainID][]rule
}

type chainID struct{ family, table, name string }

type chain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
	Hook   string `json:"hook"`   // empty: not a base chain
	Policy string `json:"policy"` // of a base chain
}

func (c *chain) id() chainID { return chainID{c.Family, c.Table, c.Name} }

type rule struct {
	Family string                       `json:"family"`
	Table  string                       `json:"table"`
	Chain  string                       `json:"chain"`
	Expr   []map[string]json.RawMessage `json:"expr"`
}

// packet is a frame that enters (input) or leaves (output) this host.
type packet struct {
	hook   string
	local  uint16
	remote netip.AddrPort
}

// ownField returns the field of the UDP header with the port of this host's NIC.
func (k *packet) ownField() string {
	if k.hook == "input" {
		return "dport"
	}
	return "sport"
}

func parseRuleset(text []byte) (*ruleset, error) {
	var list struct {
		Objects []struct {
			Chain *chain `json:"chain"`
			Rule  *rule  `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the output of nft -j list ruleset: %w", err)
	}
	r := &ruleset{rules: make(map[chainID][]rule)}
	for _, o := range list.Objects {
		switch {
		case o.Chain != nil:
			r.chains = append(r.chains, *o.Chain)
		case o.Rule != nil:
			id := chainID{o.Rule.Family, o.Rule.Table, o.Rule.Chain}
			r.rules[id] = append(r.rules[id], *o.Rule)
		}
	}
	return r, nil
}

// drops returns the base chains that drop a packet.
func (r *ruleset) drops(k *packet) (all []chain) {
	family := "ip"
	if k.remote.Addr().Unmap().Is6() {
		family = "ip6"
	}
	for _, c := range r.chains {
		if c.Hook != k.hook || c.Family != family && c.Family != "inet" {
			continue
		}
		verdict := r.run(c.id(), k, mostJumps)
		if verdict == verdictDrop || verdict == verdictNone && c.Policy == "drop" {
			all = append(all, c)
		}
	}
	return all
}

type verdict uint8

const (
	verdictNone verdict = iota // the rules end without one
	verdictAccept
	verdictDrop
)

// mostJumps bounds the chains that one packet passes, as the kernel does.
const mostJumps = 16

// run returns the verdict of a chain about a packet.
func (r *ruleset) run(id chainID, k *packet, jumps int) verdict {
	for i := range r.rules[id] {
		v, last := r.apply(&r.rules[id][i], k, jumps)
		if v != verdictNone || last {
			return v
		}
	}
	return verdictNone
}

// apply returns the verdict of one rule. last is true if the chain ignores all later rules.
func (r *ruleset) apply(u *rule, k *packet, jumps int) (v verdict, last bool) {
	for _, e := range u.Expr {
		for kind, value := range e {
			switch kind {
			case "match":
				if !k.matches(value) {
					return verdictNone, false
				}
			case "drop", "reject":
				return verdictDrop, true
			case "accept":
				return verdictAccept, true
			case "return":
				return verdictNone, true
			case "jump", "goto":
				var to struct {
					Target string `json:"target"`
				}
				if json.Unmarshal(value, &to) != nil || jumps == 0 {
					return verdictNone, false
				}
				return r.run(chainID{u.Family, u.Table, to.Target}, k, jumps-1), kind == "goto"
			case "counter", "log", "comment": // they decide nothing
			default:
				return verdictNone, false
			}
		}
	}
	return verdictNone, false
}

// match is one condition of a rule.
type match struct {
	Op   string `json:"op"`
	Left struct {
		Payload *struct {
			Protocol string `json:"protocol"`
			Field    string `json:"field"`
		} `json:"payload"`
		Meta *struct {
			Key string `json:"key"`
		} `json:"meta"`
	} `json:"left"`
	Right json.RawMessage `json:"right"`
}

// matches reports whether a packet is known to meet a condition.
func (k *packet) matches(text json.RawMessage) bool {
	var m match
	if json.Unmarshal(text, &m) != nil {
		return false
	}
	is, known := k.meets(&m)
	switch {
	case !known:
		return false
	case m.Op == "!=":
		return !is
	}
	return is && (m.Op == "==" || m.Op == "in")
}

// meets compares the field of a packet with the right side of a condition. known is false if it
// cannot.
func (k *packet) meets(m *match) (is, known bool) {
	var name string
	if json.Unmarshal(m.Right, &name) == nil && strings.HasPrefix(name, "@") {
		return false, false
	}
	if m.Left.Meta != nil {
		switch m.Left.Meta.Key {
		case "l4proto":
			return inSet(m.Right, func(v json.RawMessage) bool { return isWord(v, "udp") }), true
		case "nfproto":
			family := "ipv4"
			if k.remote.Addr().Unmap().Is6() {
				family = "ipv6"
			}
			return inSet(m.Right, func(v json.RawMessage) bool { return isWord(v, family) }), true
		}
		return false, false
	}
	if m.Left.Payload == nil {
		return false, false
	}
	field := m.Left.Payload.Field
	switch m.Left.Payload.Protocol {
	case "udp", "th":
		ports := map[string]uint16{"dport": k.local, "sport": k.remote.Port()}
		if k.hook == "output" {
			ports = map[string]uint16{"sport": k.local, "dport": k.remote.Port()}
		}
		port, ok := ports[field]
		return inSet(m.Right, func(v json.RawMessage) bool { return isPort(v, port) }), ok
	case "ip", "ip6":
		switch {
		case field == "protocol", field == "nexthdr":
			return inSet(m.Right, func(v json.RawMessage) bool { return isWord(v, "udp") }), true
		case field == "saddr" && k.hook == "input", field == "daddr" && k.hook == "output":
			return inSet(m.Right, func(v json.RawMessage) bool { return isAddr(v, k.remote.Addr().Unmap()) }), true
		}
		return false, false
	case "tcp", "icmp", "icmpv6", "sctp", "dccp", "udplite":
		return false, m.Op == "==" || m.Op == "in" // a frame of a NIC is UDP
	}
	return false, false
}

// inSet reports whether a value, or one of a set of values, is the wanted one.
func inSet(right json.RawMessage, is func(json.RawMessage) bool) bool {
	var set struct {
		Set []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(right, &set) == nil && set.Set != nil {
		return slices.ContainsFunc(set.Set, is)
	}
	return is(right)
}

func isWord(v json.RawMessage, want string) bool {
	var s string
	return json.Unmarshal(v, &s) == nil && s == want
}

// isPort reports whether a value is a port, or a range with it.
func isPort(v json.RawMessage, port uint16) bool {
	var one uint16
	if json.Unmarshal(v, &one) == nil {
		return one == port
	}
	var within struct {
		Range []uint16 `json:"range"`
	}
	return json.Unmarshal(v, &within) == nil && len(within.Range) == 2 &&
		within.Range[0] <= port && port <= within.Range[1]
}

// isAddr reports whether a value is an address, or a prefix with it.
func isAddr(v json.RawMessage, addr netip.Addr) bool {
	var one string
	if json.Unmarshal(v, &one) == nil {
		a, err := netip.ParseAddr(one)
		return err == nil && a == addr.WithZone("")
	}
	var within struct {
		Prefix struct {
			Addr string `json:"addr"`
			Len  int    `json:"len"`
		} `json:"prefix"`
	}
	if json.Unmarshal(v, &within) != nil {
		return false
	}
	a, err := netip.ParseAddr(within.Prefix.Addr)
	return err == nil && netip.PrefixFrom(a, within.Prefix.Len).Contains(addr.WithZone(""))
}
