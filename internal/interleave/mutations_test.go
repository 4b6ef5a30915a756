package interleave_test

import (
	"fmt"
	"strings"
	"testing"
)

// mutation is a mistake in the order of two accesses. A simulation cannot detect it, because
// there each side runs to its end. The mistake is compiled into the rewritten source next to the
// correct code, and its name switches it on. old must be complete statements. A second change of
// the same mutation has only the name.
type mutation struct {
	name string
	what string
	// The package below internal/ and the test that detects it, without the prefix
	// TestEveryScheduleOf.
	shown    string
	file     string // path below internal/
	old, new string
}

var mutations = []mutation{
	{"command-shown-half", "a command is present before all of it is written", "vni/TheCommandQueue", "vni/process.go",
		"e.rest = packed.rest\n\tatomic.StoreUint64(&e.word, packed.word)",
		"atomic.StoreUint64(&e.word, packed.word)\n\te.rest = packed.rest"},
	{"listening-cleared-late", "a queue is looked at before it is said that the NIC does not listen", "vni/TheListeningWord", "vni/nic.go",
		"atomic.StoreUint32(n.s.listening, 0)\n\tif n.Pending() {\n\t\tn.Listen()\n\t\treturn false\n\t}\n\treturn true",
		"pending := n.Pending()\n\tatomic.StoreUint32(n.s.listening, 0)\n\tif pending {\n\t\tn.Listen()\n\t\treturn false\n\t}\n\treturn true"},
	{"rung-before-written", "a doorbell is Done before the completion is written", "vni/ACompletionAndAParkedProcess", "vni/nic.go",
		"r.status, r.token, r.length, r.full, r.tag = uint32(c.Status), c.Token, c.Len, c.Full, c.Tag",
		"atomic.StoreUint32(bell, uint32(Done))\n\tr.status, r.token, r.length, r.full, r.tag = uint32(c.Status), c.Token, c.Len, c.Full, c.Tag"},
	{"event-told-early", "an event is published before it is written", "vni/AnEventThatIsAwaited", "vni/nic.go",
		"n.s.events[n.published%Events].store(number, &e)\n\tn.published = number\n\tatomic.StoreUint64(n.s.published, number)",
		"atomic.StoreUint64(n.s.published, number)\n\tn.s.events[n.published%Events].store(number, &e)\n\tn.published = number"},
	{"event-checked-once", "the number of an event is not looked at behind it", "vni/AnEventThatIsOverwritten", "vni/event.go",
		"return e, atomic.LoadUint64(&r.number) == number", "return e, true"},
	{"descriptor-flagged-early", "a descriptor is valid before it is written", "vni/TheDescriptorsOfARefill", "vni/process.go",
		"r.offset, r.length = d.Offset, d.Len\n\tatomic.StoreUint64(&r.regionFlag, uint64(d.Region)|DescriptorValid<<32)",
		"atomic.StoreUint64(&r.regionFlag, uint64(d.Region)|DescriptorValid<<32)\n\tr.offset, r.length = d.Offset, d.Len"},
	{"consumed-before-emptied", "a process is told that a descriptor is consumed before its record is empty", "vni/TheDescriptorsOfARefill", "vni/nic.go",
		"atomic.StoreUint64(&records[int(k%uint32(len(records)))].regionFlag, 0)\n\tn.consumed[l][i]++\n\tatomic.StoreUint32(&n.s.done[l][i].consumed, n.consumed[l][i])",
		"n.consumed[l][i]++\n\tatomic.StoreUint32(&n.s.done[l][i].consumed, n.consumed[l][i])\n\tatomic.StoreUint64(&records[int(k%uint32(len(records)))].regionFlag, 0)"},
	{"ring-seen-unread", "a reader that found no message notes that it has seen what has come since", "vni/ARing", "vni/ring.go",
		"r.shown.Store(r.pos)", "r.shown.Store(atomic.LoadUint64(r.produced))"},
	{"stalls-before-consumed", "a reader looks for a stall before it says how far it has read", "vni/ARing", "vni/ring.go",
		"if r.pos != r.told {\n\t\t\t\t\tr.publish()\n\t\t\t\t}", "r.Stalled()\n\t\t\t\tif r.pos != r.told {\n\t\t\t\t\tr.publish()\n\t\t\t\t}"},
	{"frozen-looked-at-first", "a reader looks whether its context may be another's before it loads what was written", "vni/ARingWhoseContextIsAnothers", "vni/ring.go",
		"to := atomic.LoadUint64(r.produced)\n\tif r.frozen.Load() { // to may belong to another operation\n\t\treturn r.last\n\t}\n\treturn to",
		"if r.frozen.Load() {\n\t\treturn r.last\n\t}\n\treturn atomic.LoadUint64(r.produced)"},
	{"consumed-of-another", "a reader says how far it has read in a context that is another's", "vni/ARingWhoseContextIsAnothers", "vni/ring.go",
		"atomic.CompareAndSwapUint64(r.consumed, r.told, r.pos)", "atomic.StoreUint64(r.consumed, r.pos)"},
	{"again-after-the-try", "a caller asks for one more poll after it has found that another goroutine polls", "poller/TwoKicks", "poller/poller.go",
		"p.again.Store(true)\n\tif p.mu.TryLock() {\n\t\tp.unlock()\n\t}",
		"if !p.mu.TryLock() {\n\t\tp.again.Store(true)\n\t\treturn\n\t}\n\tp.again.Store(true)\n\tp.unlock()"},
	{"deadline-after-leaving", "a deadline is noted when the engine has been given back", "poller/ADeadlineAndAHelperThatFallsAsleep", "poller/poller.go",
		"if int64(next) < p.next.Load() {\n\t\tp.next.Store(int64(next))\n\t}\n\tp.unlock()",
		"p.unlock()\n\tif int64(next) < p.next.Load() {\n\t\tp.next.Store(int64(next))\n\t}"},
	{"closed-before-the-lock", "a caller looks whether the poller is closed before it waits for the engine", "poller/ACallerThatEntersAndTheEnd", "poller/poller.go",
		"if p.closed.Load() { // perhaps during the wait: the engine's resources are closed as well\n\t\tp.mu.Unlock()\n\t\treturn false\n\t}", ""},
	{"closed-before-the-lock", "", "", "poller/poller.go", "if !p.mu.TryLock() {\n\t\tp.enterLate()\n\t}",
		"if p.closed.Load() {\n\t\treturn false\n\t}\n\tif !p.mu.TryLock() {\n\t\tp.enterLate()\n\t}"},
	{"arrived-after-asleep", "a link looks which goroutines sleep before it says that a frame has come", "poller/AFrameAndAHelperThatFallsAsleep", "poller/poller.go",
		"p.arrived.Store(true)\n\tp.helps.nudgeFor(0)", "asleep := p.helps.until.Load() > 0\n\tp.arrived.Store(true)\n\tif asleep {\n\t\tp.helps.nudge()\n\t}"},
	{"asleep-after-the-look", "the helper says that it sleeps after its last look", "poller/AFrameAndAHelperThatFallsAsleep", "poller/place.go",
		"l.until.Store(int64(next))", ""},
	{"asleep-after-the-look", "", "", "poller/place.go", "if byRuntime {\n\t\t\tl.sleep.sleep(d)\n\t\t} else {\n\t\t\tl.sleep.sleepAlone(d)\n\t\t}",
		"l.until.Store(int64(next))\n\t\tif byRuntime {\n\t\t\tl.sleep.sleep(d)\n\t\t} else {\n\t\t\tl.sleep.sleepAlone(d)\n\t\t}"},
	{"parked-without-a-look", "a waiter goes to sleep without a last look", "poller/ALateFrameAndAWaiter", "poller/poller.go",
		"if ready() || p.closed.Load() {\n\t\treturn nil\n\t}", ""},
	{"parked-after-dirty", "a loop says that it parks after its last look", "poller/ALoopThatParksAndAKick", "poller/loop_linux.go",
		"if l.dirty.Load() || l.queued.Load() > 0 || sleep != nil && sleep() {\n\t\tl.parked.Store(false)\n\t\treturn\n\t}",
		"l.parked.Store(false)\n\tif l.dirty.Load() || l.queued.Load() > 0 || sleep != nil && sleep() {\n\t\treturn\n\t}\n\tl.parked.Store(true)"},
	{"dirty-after-parked", "a caller looks whether the loop parks before it makes it dirty", "poller/ALoopThatParksAndAKick", "poller/loop_linux.go",
		"l.dirty.Store(true)\n\tif l.parked.Load() {\n\t\t_, _ = unix.Write(l.nudge, one)\n\t}",
		"parked := l.parked.Load()\n\tl.dirty.Store(true)\n\tif parked {\n\t\t_, _ = unix.Write(l.nudge, one)\n\t}"},
	{"dirty-cleared-late", "a loop is clean again after it has looked", "poller/ALoopThatParksAndAKick", "poller/loop_linux.go",
		"l.heard()", "l.dirty.Store(false)\n\t\tl.heard()"},
	{"woken-before-queued", "a loop is woken before the job is in its queue", "poller/ALoopThatParksAndADo", "poller/jobs_linux.go",
		"l.queue = append(l.queue, job{f, done})\n\tl.queued.Store(int32(len(l.queue)))\n\tl.jobs.mu.Unlock()\n\tl.wake()",
		"l.jobs.mu.Unlock()\n\tl.wake()\n\tl.jobs.mu.Lock()\n\tl.queue = append(l.queue, job{f, done})\n\tl.queued.Store(int32(len(l.queue)))\n\tl.jobs.mu.Unlock()"},
	{"looked-before-listed", "a waiter looks for the last time before it is on the list", "proc/ACompletionAndItsWaiter", "idle/waiters.go",
		"if ready() { // no WakeReady reports a condition that became true before Add\n\t\treturn nil\n\t}", ""},
	{"free-before-done", "the context of an operation is free before the operation is done", "proc/TwoThatWaitForOneOp", "proc/op.go",
		"o.done.Store(true)\n\to.release()", "o.release()\n\to.done.Store(true)"},
	{"taken-before-described", "a process looks how many descriptors were taken before it has filled the next", "proc/ASendThatIsRefilled", "proc/refill.go",
		"p.vp.SetDescriptor(o.receive, o.ctx, f.filled, d)\n\t\tmissed = missed || p.vp.Taken(o.receive, o.ctx)-f.taken == f.filled",
		"missed = missed || p.vp.Taken(o.receive, o.ctx)-f.taken == f.filled\n\t\tp.vp.SetDescriptor(o.receive, o.ctx, f.filled, d)"},
	{"done-looked-at-once", "a waiter takes the doorbell of a context that is free again for that of its operation", "proc/TwoThatWaitForOneOp", "proc/op.go",
		"return o.done.Load() || o.rung() || o.done.Load()", "return o.done.Load() || o.rung()"},
	{"record-shown-early", "a record may be shown in a ring before its bytes are there", "nic/ALongRecordThatIsShown", "nic/ring.go",
		"rest := data\n\tfor _, piece := range pieces {\n\t\trest = rest[copy(rest, piece):]\n\t}\n\te.counts[vni.NICCopiedIn] += uint64(n)\n\te.add(r, need, data, note{tag: env.Tag, token: env.Token, full: length})",
		"e.add(r, need, data, note{tag: env.Tag, token: env.Token, full: length})\n\tfor _, piece := range pieces {\n\t\tdata = data[copy(data, piece):]\n\t}\n\te.counts[vni.NICCopiedIn] += uint64(n)"},
	{"woken-before-shown", "a reader is woken before what has come is shown", "nic/ARingAndItsParkedReader", "nic/engine.go",
		"p.publish()\n\t\tif p.gone || p.wakeUp == nil || !p.vni.Sleeping() {\n\t\t\tcontinue\n\t\t}",
		"sleeping := !p.gone && p.wakeUp != nil && p.vni.Sleeping()\n\t\tp.publish()\n\t\tif !sleeping {\n\t\t\tcontinue\n\t\t}"},
	{"stall-after-the-look", "a stall is counted after the last look for room", "nic/ARingWithoutRoom", "nic/ring.go",
		"rg.w.Stall()\n\tif err := rg.look(); err != nil {\n\t\te.detach(r.p, err)\n\t\treturn false\n\t}\n\treturn rg.has(need)",
		"if err := rg.look(); err != nil {\n\t\te.detach(r.p, err)\n\t\treturn false\n\t}\n\tok := rg.has(need)\n\trg.w.Stall()\n\treturn ok"},
	{"cancelled-before-finished", "an Inbox is cancelled before its process has said what it has read", "nic/AnInboxThatTakesAnothersPlace", "proc/inbox.go",
		"b.ring.Finish()\n\t\tb.p.cancel(o, true)", "b.p.cancel(o, true)\n\t\tb.ring.Finish()"},
	{"driver-command-shown-half", "a driver command is present before all of it is written", "driver/TheDriverQueue", "driver/driver.go",
		"d.q.bells[at].Store(uint32(vni.Used))\n\te := &d.q.entries[at]\n\te.name = c.Name\n\te.word.Store(uint64(c.Code) | uint64(c.Index)<<16 | uint64(c.PID)<<32)",
		"d.q.bells[at].Store(uint32(vni.Used))\n\te := &d.q.entries[at]\n\te.word.Store(uint64(c.Code) | uint64(c.Index)<<16 | uint64(c.PID)<<32)\n\te.name = c.Name"},
	{"driver-doorbell-used-late", "the doorbell of a driver command is Used when the NIC may have answered it", "driver/TheDriverQueue", "driver/driver.go",
		"d.q.bells[at].Store(uint32(vni.Used))\n\te := &d.q.entries[at]\n\te.name = c.Name\n\te.word.Store(uint64(c.Code) | uint64(c.Index)<<16 | uint64(c.PID)<<32)",
		"e := &d.q.entries[at]\n\te.name = c.Name\n\te.word.Store(uint64(c.Code) | uint64(c.Index)<<16 | uint64(c.PID)<<32)\n\td.q.bells[at].Store(uint32(vni.Used))"},
	{"driver-rung-before-written", "the doorbell of a driver command is Done before its result is written", "driver/TheDriverQueue", "driver/nic.go",
		"n.q.results[at] = r\n\tbell.Store(uint32(vni.Done))", "bell.Store(uint32(vni.Done))\n\tn.q.results[at] = r"},
	{"driver-kicked-before-posted", "the NIC is kicked before the driver's command is in the queue", "driver/AProcessThatIsRegistered", "driver/registrar.go",
		"r.mu.Lock()\n\t\tat, ok := r.d.Post(c)\n\t\tr.mu.Unlock()\n\t\tif ok {\n\t\t\tr.w.Kick()\n\t\t\treturn at, nil\n\t\t}",
		"r.w.Kick()\n\t\tr.mu.Lock()\n\t\tat, ok := r.d.Post(c)\n\t\tr.mu.Unlock()\n\t\tif ok {\n\t\t\treturn at, nil\n\t\t}"},
	{"driver-room-told-early", "whatever waits for room is woken before an answered command has made some", "driver/ACommandThatWaitsForRoom", "driver/registrar.go",
		"r.mu.Lock()\n\tres, ok := r.d.Answered(at)\n\tr.mu.Unlock()\n\tif ok {\n\t\tr.w.Wake()\n\t}\n\treturn res, ok",
		"r.w.Wake()\n\tr.mu.Lock()\n\tres, ok := r.d.Answered(at)\n\tr.mu.Unlock()\n\treturn res, ok"},
	{"parked-before-the-look", "an attached process goes to sleep without a last look", "ctl/AWakeUpAndAnAttachedProcess", "ctl/waiter.go",
		"if ready() || w.a.gone.Load() {\n\t\treturn nil\n\t}", ""},
	{"gone-unseen", "an attached process looks for the last time at what it waits for and not whether the NIC is gone", "ctl/TheEndOfADaemon", "ctl/waiter.go",
		"if ready() || w.a.gone.Load() {\n\t\treturn nil\n\t}", "if ready() {\n\t\treturn nil\n\t}"},
	{"woken-before-gone", "whatever sleeps is woken before it is said that the daemon is gone", "ctl/TheEndOfADaemon", "ctl/waiter.go",
		"w.closed.Store(w.a.closing.Load())\n\t\tw.a.gone.Store(true)\n\t\tw.waiters.WakeAll()",
		"w.closed.Store(w.a.closing.Load())\n\t\tw.waiters.WakeAll()\n\t\tw.a.gone.Store(true)"},
	{"gone-before-closed", "it is said that nothing comes any more before it is said why", "ctl/AnAttachmentThatIsClosed", "ctl/waiter.go",
		"w.closed.Store(w.a.closing.Load())\n\t\tw.a.gone.Store(true)\n\t\tw.waiters.WakeAll()",
		"w.a.gone.Store(true)\n\t\tw.closed.Store(w.a.closing.Load())\n\t\tw.waiters.WakeAll()"},
	{"refilled-unread", "a Refill is posted though the last has not been read", "proc/ASendThatIsRefilled", "proc/refill.go",
		"if p.nicGone() == nil && !(f.posted && p.vp.Unread(f.entry, c)) {\n\t\tf.posted, f.entry = true, p.vp.Tail()\n\t\tif !p.vp.Post(c) {\n\t\t\tpanic(\"proc: no room for a Refill in spite of the reserve\")\n\t\t}\n\t}",
		"if p.nicGone() == nil {\n\t\tp.vp.Post(c)\n\t}"},
}

// compiledIn returns the edits that compile the mutations into text. Several mutations may change
// the same place.
func compiledIn(t *testing.T, text map[string]string) (edits []edit) {
	t.Helper()
	type place struct{ file, old string }
	var order []place
	branches := map[place]string{}
	for _, m := range mutations {
		p := place{m.file, m.old}
		if branches[p] == "" {
			order = append(order, p)
		}
		branches[p] += fmt.Sprintf("if interleave.Defect(%q) {\n%s\n} else ", m.name, m.new)
	}
	for _, p := range order {
		old := p.old
		if strings.HasSuffix(old, "\n") {
			t.Fatalf("%s: %q ends a line; leave that out", p.file, old)
		}
		edits = append(edits, edit{p.file, old, branches[p] + "{\n" + old + "\n}"})
	}
	return edits
}
