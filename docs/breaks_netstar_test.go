package docs_test

// breaksOfNETSTAR are the breaks of the rows of docs/netstar.md.
var breaksOfNETSTAR = []lineBreak{
	{"NETSTAR-3", "internal/nic/order.go", "return number == src.expected || e.cfg", "return true || e.cfg", "internal/nic TestAMessageIsAcceptedWhenThoseBeforeItHaveCome"},
	{"NETSTAR-4", "internal/daemon/vnis_linux.go", `newMemory("vni ro", ro, true)`, `newMemory("vni ro", ro, false)`, "internal/daemon TestWhatOnlyTheNICWritesCannotBeMadeWritableAndNothingShrinks"},
	{"NETSTAR-8", "internal/daemon/links.go", "l, ok := c.Named[c.Link]", "l, ok := c.Named[\"fast0\"]", "internal/daemon TestALinkIsChosenByTheNameThatTheConfigurationGivesIt"},
	{"NETSTAR-12", "internal/vni/segment.go", "(list*s.geo.Contexts+i)*s.lay.regionBytes", "i*s.lay.regionBytes", "internal/vni TestRegionsAreOnePerContext"},
	{"NETSTAR-13", "internal/daemon/geometry.go", "*p.of(&g) = n", "*p.of(&s.usual) = n", "internal/daemon TestAProcessGetsTheGeometryThatItAsksFor"},
	{"NETSTAR-14", "internal/vni/nic.go", "atomic.StoreUint32(n.s.head, n.head)", "", "internal/vni TestQueueFillsAndDrainsAroundItsEnd"},
	{"NETSTAR-15", "internal/vni/geometry.go", "case g.Commands < 2*g.Contexts:", "case g.Commands < g.Contexts:", "internal/vni TestGeometryOutsideItsBoundsIsRefused"},
	{"NETSTAR-16", "internal/vni/command.go", "CodeSend           Code = 1 ", "CodeSend           Code = 0 ", "internal/vni TestNumbersThatBuildsShareAreTheOnesThatWerePublished"},
	{"NETSTAR-17", "internal/vni/nic.go", "atomic.StoreUint32(bell, uint32(Done))", "", "internal/vni TestDoorbellsGoTheWayOfQNIX32"},
	{"NETSTAR-18", "internal/driver/driver.go", "d.used--\n\td.q.table[index] = Entry{}", "d.used--", "internal/driver TestAnEntryThatIsGivenBackKeepsNothingOfItsProcess"},
	{"NETSTAR-19", "internal/vni/nic.go", "atomic.StoreUint64(&e.word, 0)", "", "internal/vni TestQueueFillsAndDrainsAroundItsEnd"},
	{"NETSTAR-20", "internal/idle/waiters.go", "if l.count.Add(1) == 1 && l.Sleeping != nil {", "if l.count.Add(1) != 0 && l.Sleeping != nil {", "internal/idle TestWhoIsReadyIsWokenOnceAndTheListSaysWhenSomebodySleeps"},
	{"NETSTAR-21", "internal/proc/post.go", "kick, starts := p.vp.MustKick(), rs[0].own != nil", "kick, starts := false, rs[0].own != nil", "internal/proc TestTheNICIsKickedWhenItDoesNotListen"},
	{"NETSTAR-21", "internal/vni/nic.go", "if n.Pending() {\n\t\tn.Listen()\n\t\treturn false\n\t}\n\treturn true", "return true", "internal/vni TestTheNICStaysWithAQueueThatHasACommand"},
	{"NETSTAR-22", "internal/vni/process.go", "p.kicking && atomic.LoadUint64(&p.s.commands[p.kicked].word) != 0", "false", "internal/vni TestOfABurstOnlyTheFirstCommandKicks"},
	{"NETSTAR-24", "internal/nic/put.go", "inb.one[0] = mem", "inb.one[0] = make([]byte, len(mem))", "internal/nic TestAPUTAndAGETMayHaveMorePiecesThanARegion"},
	{"NETSTAR-25", "internal/nic/command.go", "if int(c.Context) >= len(p.recvs) {", "if int(c.Context) > len(p.recvs) {", "internal/nic TestACommandForAContextThatIsNotThereIsTheEndOfItsProcess"},
	{"NETSTAR-26", "internal/hotel/hotel.go", "h.wake = clock.Min(h.wake, clock.Time(tick<<h.shift))", "h.wake = clock.Time(tick << h.shift)", "internal/hotel TestHotelAgreesWithAMap"},
	{"NETSTAR-27", "internal/rel/acked.go", "count := ack.Sub(w.base) + 1", "count := ack.Sub(w.base)", "internal/rel TestScenarios"},
	{"NETSTAR-27", "internal/rel/fragment.go", "f.Next += uint64(n * frames)", "f.Next += uint64(n)", "internal/rel TestOfARunOnlyWhatIsLostIsSentAgain"},
}
