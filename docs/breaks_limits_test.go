package docs_test

// breaksOfLimits are breaks of the behaviour when the system refuses or ends something: killed
// servers, limits of memory, forbidden calls.
var breaksOfLimits = []lineBreak{
	{"T8", "internal/rel/session.go", "m.displace(now, s)", "", "internal/rel TestANICAtTheAddressOfAnotherOneDisplacesIt"},
	{"T8", "internal/rel/displace.go", "e.live.addr == s.addr", "e.live.addr.Addr() != s.addr.Addr()", "internal/rel TestANICElsewhereDisplacesNoNIC"},
	{"T8", "internal/rel/session.go", "m.displace(now, s)", "", "internal/names TestANICThatIsKilledAndStartedAtItsAddressHasItsNameAtOnce"},
	{"T8", "internal/names/vouch.go", "if o.NIC == t.cfg.NIC ||", "if true || o.NIC == t.cfg.NIC ||", "internal/names TestANICThatIsKilledAndStartedElsewhereHasItsNameWhenTheOldOneIsGivenUp"},
	{"T8", "internal/names/vouch.go", "n.doubts, n.doubtFrom = o.Address, now", "n.doubts, n.doubtFrom = o.Address, 0", "internal/names TestAShortSilenceOfTheOwnerGivesItsNameToNobody"},
	{"T8", "cmd/weft/memserve.go", "case <-time.After(nameEvery):", "case <-time.After(nameWait):\n\t\t\treturn nil, err", "cmd/weft TestAServerWaitsForItsNameWhileAnotherProcessHasIt"},

	{"T6", "internal/cgroup/room_linux.go", "take(inherited(dir))", "", "internal/cgroup TestTheRoomIsThatOfTheTightestCgroup"},
	{"T6", "internal/cgroup/room_linux.go", "r.LeftBytes < least.LeftBytes", "r.LimitBytes < 0", "internal/cgroup TestTheRoomIsThatOfTheTightestCgroup"},
	{"T6", "internal/refusal/memory_linux.go", "limited && n > room.LeftBytes {", "limited && n > 1<<62 {", "internal/refusal TestMemoryThatACgroupHasNotIsRefusedWithTheFigure"},
	{"T6", "internal/refusal/memory_linux.go", "err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)", "var err error", "internal/refusal TestMemoryThatIsCommittedIsNotPromisedAgain"},
	{"T6", "netmem/memory_linux.go", "if err := refusal.Memory(int64(n)); err != nil {", "if err := refusal.Memory(0); err != nil {", "netmem TestAServerThatItsCgroupHasNoRoomForIsRefusedAtStart"},
	{"T6", "netmem/memory_linux.go", "if err := refusal.Commit(mem); err != nil {", "if err := refusal.Commit(nil); err != nil {", "netmem TestWhatAServerLendsIsTakenFromItsCgroup"},
	{"T6", "netmem/port.go", "if err := refusal.Memory(int64(n)); err != nil {", "if err := refusal.Memory(0); err != nil {", "cmd/weft TestAServerLargerThanItsContainerIsRefusedAtStart"},
	{"T6", "internal/daemon/config.go", "if limited && c.RegionBytes > limit {", "if false {", "internal/daemon TestRegionsThatTheCgroupHasNoRoomForAreRefused"},
	{"T6", "internal/daemon/regions_linux.go", "else if err = refusal.Memory(size); err == nil {", "else if err = refusal.Memory(0); err == nil {", "internal/daemon TestRegionsThatTheCgroupHasNoRoomForAreRefused"},
	{"T6", "internal/memory/hugepage/ordinary_unix.go", "refusal.Memory(int64(n))", "refusal.Memory(0)", ". TestARegionThatTheCgroupHasNoRoomForIsRefused"},

	{"T7", "internal/memfd/memfd_linux.go", "!errors.Is(err, unix.ENOSYS)", "true", "internal/memfd TestWithoutTheCallAFileLiesOnATmpfsWithoutAName"},
	{"T7", "internal/memfd/memfd_linux.go", "|unix.O_EXCL", "", "internal/memfd TestWithoutTheCallAFileLiesOnATmpfsWithoutAName"},
	{"T7", "internal/memfd/memfd_linux.go", "if st.Type != unix.TMPFS_MAGIC {", "if false {", "internal/memfd TestWithoutTheCallAndATmpfsTheErrorNamesBoth"},
	{"T7", "internal/daemon/session_linux.go", "errors.Join(s.vni.rw.mayHave(s.uid), s.vni.ro.mayHave(s.uid))", "error(nil)", "internal/daemon TestADaemonDoesWithoutMemfdCreateForItsOwnUser"},
	{"T7", "internal/refusal/words_linux.go", "case errors.Is(err, unix.EFBIG):", "case false:", "internal/refusal TestALimitOfFileSizesIsNamed"},
	{"T7", "internal/refusal/words_linux.go", "ok && bytes > left {", "ok && left < 0 {", "internal/refusal TestALimitOfTheAddressSpaceIsNamed"},
	{"T7", "internal/memfile/memfile_linux.go", "|| errors.Is(err, iofs.ErrNotExist) {", "&& errors.Is(err, iofs.ErrNotExist) {", "internal/memfile TestAMountThatIsNotPermittedNamesWhatItNeeds"},
	{"T7", "netmem/spill_linux.go", "return refusal.Of(\"fallocate\", n, err)", "return err", "netmem TestALimitThatAServerMeetsIsNamed"},
}
