package docs_test

// breaksOfLimits are breaks of what holds when the system refuses or ends something: servers that are
// killed, limits of memory, calls that are not permitted.
var breaksOfLimits = []lineBreak{
	{"T8", "internal/rel/session.go", "m.displace(now, s)", "", "internal/rel TestANICAtTheAddressOfAnotherOneDisplacesIt"},
	{"T8", "internal/rel/displace.go", "e.live.addr == s.addr", "e.live.addr.Addr() != s.addr.Addr()", "internal/rel TestANICElsewhereDisplacesNoNIC"},
	{"T8", "internal/rel/session.go", "m.displace(now, s)", "", "internal/names TestANICThatIsKilledAndStartedAtItsAddressHasItsNameAtOnce"},
	{"T8", "internal/names/vouch.go", "if o.NIC == t.cfg.NIC ||", "if true || o.NIC == t.cfg.NIC ||", "internal/names TestANICThatIsKilledAndStartedElsewhereHasItsNameWhenTheOldOneIsGivenUp"},
	{"T8", "internal/names/vouch.go", "n.doubts, n.doubtFrom = o.Address, now", "n.doubts, n.doubtFrom = o.Address, 0", "internal/names TestAShortSilenceOfTheOwnerGivesItsNameToNobody"},
}
