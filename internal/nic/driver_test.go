package nic

import (
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
)

// hookedPort calls back in the middle of a poll, whenever a frame is written.
type hookedPort struct {
	link.Driver
	reserve func()
}

// Caps returns no capabilities, so every frame leaves by Reserve.
func (p *hookedPort) Caps() link.Caps { return link.Caps{} }

func (p *hookedPort) Reserve(to link.Addr) []byte {
	if p.reserve != nil {
		p.reserve()
	}
	return p.Driver.Reserve(to)
}

// QNIX-49: the driver's commands are executed at once, between any two operations.
func TestAProcessComesAndAnotherGoesInTheMiddleOfAPoll(t *testing.T) {
	for at := 1; at < 40; at++ {
		f := newFabric(t, 1, fault.Config{})
		port := &hookedPort{Driver: f.sw.Port()}
		e, err := New(Config{ID: 2, Incarnation: 1, Secrets: secret.Seeded(2), Link: port})
		if err != nil {
			t.Fatal(err)
		}
		f.engines = append(f.engines, e)
		if err := e.AddNode(1, mem.Address(1)); err != nil {
			t.Fatal(err)
		}
		to := f.process(0, "to/0")
		stays, goes := f.process(1, "stays/0"), f.process(1, "goes/0")
		f.known("to/0", "stays/0", "goes/0")

		// While both send, one is deleted in the middle of a poll. The successor in its slot comes
		// in the middle of a later poll.
		data, there := pattern(200_000, 1), make([]byte, 200_000)
		r := to.recv("stays/0", 1, 0, there)
		lost := to.recv("goes/0", 1, 0, make([]byte, 200_000))
		s := stays.send("to/0", 1, vni.WantAccept, data)
		goes.send("to/0", 1, vni.WantAccept, data)
		d, frames, gone, came := e.Driver(), 0, 0, 0
		next := f.segment()
		port.reserve = func() {
			switch frames++; frames {
			case at:
				gone, _ = d.Post(driver.Command{Code: driver.DeleteProcess, Index: goes.slot})
			case at + 7:
				index, _ := d.Take(1)
				d.Tie(index, driver.Entry{VNI: next})
				came, _ = d.Post(driver.Command{Code: driver.NewProcess, Index: index, PID: 1, Name: goes.name})
			}
		}
		to.wantReceived(r, there, data)
		stays.wantSent(s)
		if c := to.finish(true, lost); c.Status != vni.StatusOK && c.Status != vni.StatusProcessGone {
			t.Fatalf("frame %d: the message of the one that goes ended with %v", at, c.Status)
		}
		f.until(time.Second, "both commands are answered", func() bool {
			return frames >= at+7 && d.Doorbell(gone) == vni.Done && d.Doorbell(came) == vni.Done
		})
		if r, _ := d.Answered(came); r.Err != nil || r.Gen == 0 {
			t.Fatalf("frame %d: the successor is generation %d, %v", at, r.Gen, r.Err)
		}
		f.noLeaks()
	}
}

// pollHook calls back when the link is polled: in the middle of an engine's poll, after its first
// look for driver commands.
type pollHook struct {
	link.Driver
	polled func()
}

func (p *pollHook) Poll(now clock.Time, to link.Receiver) (frames int, next clock.Time) {
	if p.polled != nil {
		p.polled()
	}
	return p.Driver.Poll(now, to)
}

// QNIX-49: a driver command that is posted in the middle of a poll is executed within it, not in
// the next.
func TestADriverCommandIsExecutedWithinThePollInWhichItComes(t *testing.T) {
	f := newFabric(t, 0, fault.Config{})
	port := &pollHook{}
	e := f.addNIC(1, 1, fault.Config{}, func(c *Config) { port.Driver, c.Link = c.Link, port })
	goes := f.process(0, "goes/0")
	at := noCommand
	port.polled = func() {
		if at == noCommand {
			at, _ = e.Driver().Post(driver.Command{Code: driver.DeleteProcess, Index: goes.slot})
		}
	}
	e.Poll(f.now)
	if _, ok := e.Driver().Answered(at); !ok {
		t.Error("a process that was deleted in the middle of a poll is still there after it")
	}
}

// QNIX-49: a driver command does not wait for the commands that processes have posted, or for the
// turns of their sends.
func TestADriverCommandIsExecutedBetweenTwoOperations(t *testing.T) {
	for what, length := range map[string]int{"commands": 100, "turns": limits.StagedMessage + 1} {
		f := newFabric(t, 1, fault.Config{})
		to, senders := f.process(0, "to/0"), []*tester{f.process(0, "sends/0"), f.process(0, "sends/1")}
		e, at := to.e, noCommand
		var came []vni.Name
		e.Guard(to.slot, to.gen, func(m *Arrival) bool {
			came = append(came, m.From)
			for _, p := range senders {
				if at == noCommand && p.name != m.From { // the process whose message comes next
					at, _ = e.Driver().Post(driver.Command{Code: driver.DeleteProcess, Index: p.slot})
				}
			}
			return false
		})
		for _, p := range senders {
			p.send("to/0", 1, 0, make([]byte, length))
		}
		e.Poll(f.now)
		if len(came) != 1 || at == noCommand {
			t.Errorf("between two %s: %d messages came, %v; expected one, since the other's process was deleted meanwhile", what, len(came), came)
		}
	}
}

func TestDriverCommandsAreRefusedWithAReason(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	p := f.process(0, "a/0")
	for _, c := range []struct {
		name string
		want error
	}{{"a/0", ErrNameTaken}, {"nic/3", ErrNameTaken}} {
		n, err := vni.ParseName(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.f.register(p.e, n, f.segment(), nil); !errors.Is(err, c.want) {
			t.Errorf("a second process called %s: %v", c.name, err)
		}
	}
	if _, _, err := p.f.register(p.e, vni.Name{}, f.segment(), nil); err == nil {
		t.Error("a process without a name is taken in")
	}
	p.e.Close(f.now)
	n := vni.Name{App: [limits.NameBytes]byte{'b'}}
	if _, _, err := p.f.register(p.e, n, f.segment(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("at a NIC that is closed: %v", err)
	}
	p.exit() // this still works: the process's memory has to be released
}

// A process that is deleted before its New_Process has been answered takes that doorbell with it.
func TestAProcessMayBeDeletedBeforeItIsTakenIn(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	p := f.process(0, "a/0")
	d := p.e.Driver()
	at, _ := d.Post(driver.Command{Code: driver.NewProcess})
	if c, read, ok := p.e.driver.Next(); !ok || read != at || c.Code != driver.NewProcess {
		t.Fatal("the command is not read")
	}
	p.e.process(p.slot).newAt = at // as if the engine had to find out something about it first
	p.exit()
	if r, ok := d.Answered(at); !ok || !errors.Is(r.Err, ErrDeleted) {
		t.Errorf("its New_Process is answered: %v, with %v", ok, r.Err)
	}
}

// A driver that waits for room in its queue is woken when there is room, whether or not the
// commands in it are answered.
func TestTheDriverIsWokenWhenItsQueueWasRead(t *testing.T) {
	f := newFabric(t, 0, fault.Config{})
	rung := 0
	e := f.addNIC(1, 1, fault.Config{}, func(c *Config) { c.Rung = func() { rung++ } })
	f.addNIC(2, 1, fault.Config{})
	if err := e.AddNode(2, mem.Address(2)); err != nil {
		t.Fatal(err)
	}
	f.until(time.Second, "the pair is open", func() bool { return e.peerOf(2) != nil && e.peerOf(2).names.Synced() })
	name := vni.Name{Index: 1}
	// Its home is the other NIC, which is not asked here.
	for copy(name.App[:], "a"); e.names.Home(name) == nil; name.Index++ {
	}
	d := e.Driver()
	slot, _ := d.Take(1)
	d.Tie(slot, driver.Entry{VNI: f.segment()})
	at, _ := d.Post(driver.Command{Code: driver.NewProcess, Index: slot, Name: name})
	rung = 0
	e.Poll(f.now)
	if _, ok := d.Answered(at); ok {
		t.Fatal("it is answered though its name is not confirmed")
	}
	if rung != 1 {
		t.Errorf("the driver was woken %d times", rung)
	}
}
