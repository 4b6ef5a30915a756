package docs_test

// breaksOfRoaming are breaks of addresses that change, and of names with several addresses.
var breaksOfRoaming = []lineBreak{
	{"roaming", "internal/link/udp/source_linux.go", "s.sources = ip.IsUnspecified() && ", "s.sources = false && ", "internal/link/udp TestAnAnswerLeavesFromTheAddressThatWasCalled"},
	{"roaming", "internal/link/udp/source_linux.go", "if !end.from.IsValid() {", "if end != nil {", "internal/link/udp TestAnAddressThatTheHostHasLostDelaysNoFrame"},
	{"roaming", "internal/link/udp/stage.go", "from, s.source = s.source, netip.Addr{}", "from = s.source", "internal/link/udp TestTheSourceIsThatOfOneReservationAlone"},
	{"roaming", "internal/link/udp/stage.go", " || s.peers[n-1].from != s.from {", " {", "internal/link/udp TestTheSourceIsThatOfOneReservationAlone"},
	{"roaming", "internal/link/fault/poll.go", "\t\tf.at = h.at\n", "", "internal/link/fault TestAHeldFrameKeepsTheAddressAtWhichItArrived"},
	{"roaming", "internal/rel/source.go", "\ts.endpoint.m.leavesFrom(s.local)\n", "", "internal/rel TestASessionOutlivesAnotherPreferredAddress"},
	{"roaming", "internal/rel/source.go", "\ts.local = at\n", "", "internal/rel TestASealedSessionFollowsAHostThatLosesTheAddress"},
	{"roaming", "internal/rel/source.go", "s.sealed != nil && silent", "false && silent", "internal/rel TestASealedSessionFollowsTheRoutesOfAHostWhoseAddressLeadsNowhere"},
	{"roaming", "internal/rel/source.go", "if e.attempt.hellos%2 == 1 {", "if true {", "internal/rel TestAHelloOfAKnownPeerLeavesFromWhereItsSessionWas"},
	{"roaming", "internal/rel/hello.go", "\ts.local = m.reached()\n", "", "internal/rel TestASessionMayBeginAtAnAddressThatNoFrameLeavesFromByItself"},
	{"roaming", "internal/rel/receive.go", "if o.Counter == s.replay.top {", "if true {", "internal/rel TestALateFrameFromTheOldAddressIsTakenAndMovesNothing"},
	{"roaming", "internal/rel/receive.go", "(s.sealed == nil || !s.open || s.apart(o))", "(s.sealed == nil || !s.open || o.Counter <= s.replay.top || s.apart(o))", "internal/rel TestAnotherPortOfATranslatorLosesNoFrameOfASealedSession"},
	{"roaming", "internal/rel/elsewhere.go", "o.Counter <= s.replay.top || ", "", "internal/rel TestFramesThatAreSentAgainFromElsewhereMoveNothing"},
	{"roaming", "internal/rel/elsewhere.go", "if s.packets.guard.peek(o, frame) == nil {", "if false {", "internal/rel TestFramesThatAreSentAgainFromElsewhereMoveNothing"},
	{"roaming", "internal/rel/elsewhere.go", "if e.elsewhere.IsValid() {", "if false {", "internal/rel TestAPlainSessionMovesForNobodyAndTellsWhereItsFramesComeFrom"},
	{"roaming", "internal/rel/module.go", "\tif e.attempt.wanted {\n\t\te.hello(now)\n\t}\n}", "}", "internal/names TestANICIsFoundAtAnyOfItsAddresses"},
	{"roaming", "internal/names/attend.go", "case p.turns > 0 && p.turnAt <= now:", "case false:", "internal/names TestANICIsFoundAtAnyOfItsAddresses"},
	{"roaming", "internal/names/attend.go", "if p.pause > 0 {", "if false {", "internal/names TestANICThatStartsLaterIsFoundThoughOtherAddressesWereTried"},
	{"roaming", "internal/names/nodes.go", "\tt.absorb(p)\n", "", "internal/names TestANICThatCallsFromItsSecondAddressIsTheOneThatWasNamed"},
	{"roaming", "internal/registry/resolve.go", "len(order) < limits.NodeAddresses", "len(order) < 9*limits.NodeAddresses", "internal/registry TestANameHasABoundedNumberOfAddresses"},
	{"roaming", "internal/registry/merge.go", "addrs[a] = true", "_, addrs[n.Addr] = a, true", "internal/registry TestANodeTellsAllItsAddresses"},
}
