package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// ruleset is the packet filter of a host, from the output of `nft -j list ruleset`:
//
//	packet ─► each base chain of its hook ─► rules in order ─► drop, reject ─► the chain drops it
//	             ▲        accept, or the end of a chain whose policy is accept ─► next base chain
//	             └─ jump, goto: the rules of another chain
//
// It judges a frame of a NIC by the matches that it knows: protocol, ports, addresses and the
// loopback interface. It does not know others, such as the state of a connection or a named set. A
// rule with such a match is taken to drop nothing, and a rule that may accept the frame makes the
// verdict of its chain unknown. So a chain is named only if it drops each such frame.
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
	inside bool // remote is of this host, so the frame passes its loopback interface
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
	for _, c := range r.chains {
		if c.Hook != k.hook || c.Family != k.family() && c.Family != "inet" {
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
	verdictUnknown
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
	sure, may := true, false // it applies for certain; a statement that is not known may decide
	for _, e := range u.Expr {
		for kind, value := range e {
			switch kind {
			case "match":
				switch k.matches(value) {
				case no:
					return verdictNone, false
				case unknown:
					sure = false
				}
			case "drop", "reject":
				if sure && !may {
					return verdictDrop, true
				}
				return verdictNone, false // if later rules drop it, it is dropped in any case
			case "accept", "return":
				if !sure || may {
					return verdictUnknown, true
				}
				if kind == "accept" {
					return verdictAccept, true
				}
				return verdictNone, true
			case "jump", "goto":
				return r.enter(u, value, k, jumps, kind == "goto", sure && !may)
			case "counter", "log", "comment", "mangle": // they decide nothing
			case "limit", "quota", "ct count":
				sure = false
			case "xt": // a match, or the target at the end
				may = true
			default:
				return verdictUnknown, true
			}
		}
	}
	if may {
		return verdictUnknown, true
	}
	return verdictNone, false
}

// enter returns the verdict of a rule that passes a packet to another chain.
func (r *ruleset) enter(u *rule, value json.RawMessage, k *packet, jumps int, leaves, sure bool) (verdict, bool) {
	var to struct {
		Target string `json:"target"`
	}
	if json.Unmarshal(value, &to) != nil || jumps == 0 {
		return verdictUnknown, true
	}
	v := r.run(chainID{u.Family, u.Table, to.Target}, k, jumps-1)
	switch {
	case sure:
		return v, leaves
	case v == verdictDrop, v == verdictNone && !leaves:
		return verdictNone, false
	}
	return verdictUnknown, true
}

// truth is what is known of a condition.
type truth uint8

const (
	unknown truth = iota
	no
	yes
)

// is returns the truth of a fact that is known.
func is(fact bool) truth {
	if fact {
		return yes
	}
	return no
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

// matches reports whether a packet meets a condition.
func (k *packet) matches(text json.RawMessage) truth {
	var m match
	if json.Unmarshal(text, &m) != nil {
		return unknown
	}
	if l := m.Left.Payload; l != nil && k.without(l.Protocol) {
		return no // whatever the operator: the rule is about another protocol
	}
	t := k.meets(&m)
	switch {
	case t == unknown || m.Op == "==" || m.Op == "in":
		return t
	case m.Op == "!=":
		return is(t == no)
	}
	return unknown
}

// family returns the name of the protocol that carries the packet, as nft calls it.
func (k *packet) family() string {
	if k.remote.Addr().Unmap().Is6() {
		return "ip6"
	}
	return "ip"
}

// without reports whether a packet has no header of a protocol. A frame of a NIC is UDP.
func (k *packet) without(protocol string) bool {
	switch protocol {
	case "tcp", "icmp", "icmpv6", "sctp", "dccp", "udplite":
		return true
	case "ip", "ip6":
		return protocol != k.family()
	}
	return false
}

// meets compares the field of a packet with the right side of a condition.
func (k *packet) meets(m *match) truth {
	if m.Left.Meta != nil {
		return k.meetsMeta(m.Left.Meta.Key, m.Right)
	}
	if m.Left.Payload == nil {
		return unknown
	}
	field := m.Left.Payload.Field
	switch m.Left.Payload.Protocol {
	case "udp", "th":
		ports := map[string]uint16{"dport": k.local, "sport": k.remote.Port()}
		if k.hook == "output" {
			ports = map[string]uint16{"sport": k.local, "dport": k.remote.Port()}
		}
		if port, ok := ports[field]; ok {
			return inSet(m.Right, func(v json.RawMessage) truth { return isPort(v, port) })
		}
	case "ip", "ip6":
		switch {
		case field == "protocol", field == "nexthdr":
			return inSet(m.Right, func(v json.RawMessage) truth { return isWord(v, "udp") })
		case field == "saddr" && k.hook == "input", field == "daddr" && k.hook == "output":
			remote := k.remote.Addr().Unmap().WithZone("")
			return inSet(m.Right, func(v json.RawMessage) truth { return isAddr(v, remote) })
		}
	}
	return unknown
}

// meetsMeta compares a fact about a packet that is in none of its headers.
func (k *packet) meetsMeta(key string, right json.RawMessage) truth {
	switch key {
	case "l4proto":
		return inSet(right, func(v json.RawMessage) truth { return isWord(v, "udp") })
	case "nfproto":
		family := map[string]string{"ip": "ipv4", "ip6": "ipv6"}[k.family()]
		return inSet(right, func(v json.RawMessage) truth { return isWord(v, family) })
	case "iif", "iifname", "oif", "oifname":
		if (key[0] == 'i') == (k.hook == "input") && isWord(right, "lo") == yes {
			return is(k.inside || k.remote.Addr().IsLoopback())
		}
	}
	return unknown
}

// inSet reports whether a value, or one of a set of values, is the wanted one.
func inSet(right json.RawMessage, wanted func(json.RawMessage) truth) truth {
	var set struct {
		Set []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(right, &set) != nil || set.Set == nil {
		return wanted(right)
	}
	all := no
	for _, v := range set.Set {
		var with struct { // a comment or a counter
			Elem struct {
				Val json.RawMessage `json:"val"`
			} `json:"elem"`
		}
		if json.Unmarshal(v, &with) == nil && with.Elem.Val != nil {
			v = with.Elem.Val
		}
		switch wanted(v) {
		case yes:
			return yes
		case unknown:
			all = unknown
		}
	}
	return all
}

func isWord(v json.RawMessage, want string) truth {
	var s string
	if json.Unmarshal(v, &s) != nil || strings.HasPrefix(s, "@") {
		return unknown
	}
	return is(s == want)
}

// isPort reports whether a value is a port, or a range with it.
func isPort(v json.RawMessage, port uint16) truth {
	var one uint16
	if json.Unmarshal(v, &one) == nil {
		return is(one == port)
	}
	var within struct {
		Range []uint16 `json:"range"`
	}
	if json.Unmarshal(v, &within) != nil || len(within.Range) != 2 {
		return unknown
	}
	return is(within.Range[0] <= port && port <= within.Range[1])
}

// isAddr reports whether a value is an address, or a prefix or a range with it.
func isAddr(v json.RawMessage, addr netip.Addr) truth {
	var one string
	if json.Unmarshal(v, &one) == nil {
		a, err := netip.ParseAddr(one)
		if err != nil {
			return unknown
		}
		return is(a == addr)
	}
	var within struct {
		Prefix struct {
			Addr netip.Addr `json:"addr"`
			Len  int        `json:"len"`
		} `json:"prefix"`
		Range []netip.Addr `json:"range"`
	}
	switch err := json.Unmarshal(v, &within); {
	case err != nil:
	case len(within.Range) == 2:
		return is(!addr.Less(within.Range[0]) && !within.Range[1].Less(addr))
	case within.Prefix.Addr.IsValid():
		return is(netip.PrefixFrom(within.Prefix.Addr, within.Prefix.Len).Contains(addr))
	}
	return unknown
}
