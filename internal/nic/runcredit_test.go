package nic

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// newScarce makes two processes. One has a small ring and gives little credit for messages that do
// not fit it.
func newScarce(t *testing.T, d mutate.Defect) (f *fabric, a, b *rider, w *inbox) {
	f = newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) { c.InitialCreditBytes, c.Defect = 4096, d })
	a, b = f.riders()
	f.stepBy = func() { // as daemons poll that have work now and then
		for _, e := range f.engines {
			e.Poll(f.now)
		}
		f.now = f.now.Add(5 * time.Microsecond)
	}
	f.met(a, b)
	return f, a, b, b.gather(nil, 5, 64, 2048)
}

// flood returns n messages of one run.
func flood(n int) (messages [][]byte) {
	for i := range n {
		messages = append(messages, pattern(60, byte(i)))
	}
	return messages
}

// readEvery reads the ring at intervals of d until a run has ended.
func (f *fabric) readEvery(d time.Duration, w *inbox, ended func() bool) {
	f.t.Helper()
	at := f.now.Add(d)
	f.until(10*time.Second, "the end of a run", func() bool {
		if f.now >= at {
			w.read()
			at = f.now.Add(d)
		}
		return ended()
	})
}

func TestARunWaitsALittleForCreditInsteadOfAsking(t *testing.T) {
	f, a, _, w := newScarce(t, mutate.None)
	messages := flood(200)
	before := a.e.Count(vni.NICRequests)
	i := a.sendRun("b/0", 5, messages)
	f.readEvery(150*time.Microsecond, w, func() bool {
		if err := a.e.Limits(); err != nil {
			t.Fatal(err)
		}
		return a.done(false, i)
	})
	if c := a.finish(false, i); c.Status != vni.StatusOK || c.Len != 200 {
		t.Errorf("%d of 200 messages have left, %v", c.Len, c.Status)
	}
	if n, asked := a.e.Ways()[WayRunAwaited], a.e.Count(vni.NICRequests)-before; n == 0 || asked > 0 {
		t.Errorf("the run has waited %d times, and %d permissions were asked for", n, asked)
	}
	w.want(messages...)
	w.close()
	f.noLeaks()
}

func TestARunWhoseReceiverDoesNotReadEndsSoonAndTheNextAtOnce(t *testing.T) {
	f, a, _, w := newScarce(t, mutate.None)
	var took [2]time.Duration
	var left [2]uint64
	for k := range took {
		began := f.now
		i := a.sendRun("b/0", 5, flood(200))
		f.until(time.Second, "the end of a run", func() bool { return a.done(false, i) })
		took[k], left[k] = f.now.Sub(began), a.finish(false, i).Len
	}
	if left[0] == 0 || left[0] == 200 || left[1] != 0 {
		t.Fatalf("%d messages of a run have left and %d of the next, with credit for some", left[0], left[1])
	}
	if took[0] < limits.RoomWait || took[0] > 2*limits.RoomWait || took[1] > limits.RoomWait/4 {
		t.Errorf("the runs took %v and %v; want one wait of %v", took[0], took[1], limits.RoomWait)
	}
	w.reads(int(left[0]))
	i := a.sendRun("b/0", 5, flood(200)) // after a message has left, it is worth waiting again
	f.readEvery(150*time.Microsecond, w, func() bool { return a.done(false, i) })
	if c := a.finish(false, i); c.Len != 200 {
		t.Errorf("%d of 200 messages have left", c.Len)
	}
	w.reads(int(left[0]) + 200)
	w.close()
	f.noLeaks()
}

func TestARunThatWaitsForCreditMayBeCancelledAndGoesWithItsProcess(t *testing.T) {
	f, a, b, w := newScarce(t, mutate.None)
	await := func() (ctx int) {
		i := a.sendRun("b/0", 5, flood(200))
		f.until(time.Second, "a run that waits", func() bool { return a.e.expiry.short.n == 1 })
		return i
	}
	i := await()
	a.tester.post(vni.Command{Code: vni.CodeCancel, Context: uint16(i), Size: vni.CancelSend})
	if c := a.finish(false, i); c.Status != vni.StatusCancelled || a.e.expiry.short.n != 0 {
		t.Errorf("a cancelled run ended with %v, and %d wait", c.Status, a.e.expiry.short.n)
	}
	w.read()
	f.run(time.Millisecond)
	await()
	a.exit()
	f.until(time.Second, "nothing waits", func() bool { return a.e.expiry.short.n == 0 })
	for w.read(); b.e.process(b.slot).stray.n > 0; w.read() {
		f.step()
	}
	w.close()
	f.noLeaks()
}

func TestARunThatIsDeafToCreditIsFound(t *testing.T) {
	f, a, _, w := newScarce(t, mutate.RunDeaf)
	i := a.sendRun("b/0", 5, flood(200))
	found := false
	f.readEvery(150*time.Microsecond, w, func() bool {
		found = found || a.e.Limits() != nil
		return found || a.done(false, i)
	})
	if !found {
		t.Error("a run slept on though there was credit, and no audit said so")
	}
}
