package docs_test

// breaksOfTestbed are breaks of the hosts of the testbed.
var breaksOfTestbed = []lineBreak{
	{"testbed", "internal/testbed/shape.go", "h.frames[0].due.After(now)", "h.frames[0].due.After(now.Add(time.Millisecond))", "internal/testbed TestAFrameLeavesWhenItsDelayIsOverAndNotBefore"},
	{"testbed", "internal/testbed/shape.go", "delay:     c.Delay + time.Duration(first*float64(c.Jitter)),", "delay:     c.Delay + time.Duration((first-0.5)*float64(c.Jitter)),", "internal/testbed TestJitterAddsToTheDelayAndNeverTakesFromIt"},
	{"testbed", "internal/testbed/shape.go", "late.due, late.order = due, h.number()", "late.due = due", "internal/testbed TestAReorderedFrameLeavesRightBehindTheNextOfItsSender"},
	{"testbed", "internal/testbed/shape.go", "rand.NewPCG(c.Seed, uint64(sender))", "rand.NewPCG(c.Seed, 0)", "internal/testbed TestASeedDecidesTheFatesOfEachSendersFrames"},
	{"testbed", "internal/testbed/shape.go", "if h.bytes+len(frame)+perFrameBytes > heldBytes {", "if false {", "internal/testbed TestASwitchThatIsFullDropsFramesAndCountsThem"},
	{"testbed", "internal/testbed/shape.go", "h.hold(now.Add(fate.copyDelay), from, frame)", "", "internal/testbed TestDuplicatesAreCopiesAndEachFrameIsThere"},
	{"testbed", "internal/testbed/shape.go", "append([]byte(nil), frame...)", "frame", "internal/testbed TestADelayKeepsTheOrderAndLosesNothing"},
	{"testbed", "cmd/weft/testbed_dir_linux.go", "case int(owner) != os.Geteuid():", "case false:", "cmd/weft TestACommandThatCannotJoinSaysWhy"},
	{"testbed", "cmd/weft/testbed_dir_linux.go", "err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)", "err = nil", "cmd/weft TestACommandThatCannotJoinSaysWhy"},
	{"testbed", "cmd/weft/testbed_supervise_linux.go", "if !reap(unix.WNOHANG) && d.empty() {", "if !reap(unix.WNOHANG) {", "cmd/weft TestWhatHasJoinedEndsWithTheTestbed"},
}
