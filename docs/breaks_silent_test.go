package docs_test

// breaksOfSilent are breaks of the behaviour towards live but silent peers, of the order of
// connections, and of the end of one direction.
var breaksOfSilent = []lineBreak{
	{"T3", "stream/keepalive.go", "return c.vouched && now", "return false && now", "stream TestAStreamOutlivesAPauseOfItsPeer"},
	{"T3", "stream/keepalive.go", "c.vouched && now.Sub(c.heard) < c.cfg.patience", "c.vouched", "stream TestASilentPeerEndsAStreamUnlessItsNICVouchesForIt"},
	{"T3", "stream/keepalive.go", "c.overslept(slept)", "", "stream TestAProcessThatWasStoppedTakesItsOwnSilenceForNoOtherOnes"},
	{"T3", "internal/nic/region.go", "case m.Asks() && !writes:", "case false:", "internal/nic TestANICVouchesForItsLivingProcessesAlone"},
	{"T3", "cmd/weft/proxyways.go", "Timeout: limits.ProxyDial, KeepAlive: f.keepAlive, Patience: f.patience", "Timeout: limits.ProxyDial, KeepAlive: f.keepAlive", "cmd/weft TestAStoppedProxyLosesNoConnection"},
	{"T23", "internal/proxy/order.go", "t.before, o.last[t.key] = o.last[t.key], t", "t.before, o.last[t.key] = nil, t", "internal/proxy TestTwoProxiesKeepTheOrderOfConnections"},
	{"T23", "internal/proxy/order.go", "case <-late.C:", "case <-make(chan int):", "internal/proxy TestASlowDialHoldsUpLaterOnesOfItsSourceForABoundedTime"},
	{"T23", "internal/proxy/order.go", "k := turnKey{way: w, source:", "k := turnKey{source:", "internal/proxy TestASlowDialHoldsUpNoOtherWay"},
	{"T23", "internal/proxy/order.go", "a.turn.pass()", "", "internal/proxy TestADialThatHasBegunLetsTheNextBegin"},
	{"T10", "internal/nbd/conn.go", "if err != io.EOF && err != io.ErrUnexpectedEOF ||", "if err != io.EOF ||", "internal/nbd TestATornRequestAtTheEndTakesNoWholeOneAlong"},
	{"T10", "internal/nbd/conn.go", "err != io.ErrUnexpectedEOF || !takesReplies(n.c) {", "err != io.ErrUnexpectedEOF {", "internal/nbd TestRequestsOfAClientThatClosedItsSocketEnd"},
}
