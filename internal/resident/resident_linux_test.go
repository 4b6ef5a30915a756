package resident

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	cilium "github.com/cilium/ebpf"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/udp"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/vm"
)

// A program enters the driver with the variables that the virtual machine has initialised, is
// replaced there, and leaves with the variables that it then has. After that, messages come to
// the NIC.
func TestAProgramEntersTheDriverAndLeavesWithItsVariables(t *testing.T) {
	n := newNIC(t)
	n.load(echoSource, false)
	n.meet(keys)
	n.answered(6, 12)
	n.answered(7, 12)
	n.load(strings.Replace(echoSource, "n + 1", "n + 10", 1), true)
	n.answered(17, 12)
	n.engine.do(func(table *program.Table) {
		infos := table.List()
		if len(infos) != 1 || !infos[0].InDriver || infos[0].Profile.Activations < 1 {
			t.Errorf("%+v", infos)
		}
	})
	m := module(t, echoSource)
	n.engine.do(func(table *program.Table) {
		if _, _, err := table.Load(program.Spec{Module: m, ID: programID, Replace: true, Start: true}); err != nil {
			t.Error(err)
		}
	})
	n.passes(12)
	n.load(echoSource, true)
	n.answered(18, 12)
}

// Messages of a session are answered while it is open. If a peer begins another session, only the
// frames of that one are answered.
func TestSessionsThatEndAreAnsweredNoMore(t *testing.T) {
	n := newNIC(t)
	n.load(echoSource, false)
	n.passes(12)
	n.meet(keys)
	n.answered(6, 12)
	next := keys
	next.Index, next.Cookie, next.ReplyCookie = 0x5678, 4711, 8888
	n.meet(next)
	n.answered(7, 12)
	n.keys, n.counter = keys, 100
	n.passes(12)
	n.keys, n.counter = next, 100
	n.answered(8, 12)
	n.part()
	n.passes(12)
	n.meet(next)
	n.answered(9, 12)
}

// The index of an ended session goes to another NIC.
func TestTheEndOfASessionEndsNoneOfAnotherNIC(t *testing.T) {
	n := newNIC(t)
	n.load(echoSource, false)
	n.meet(keys)
	n.answered(6, 12)
	n.part()
	const other = peerNIC + 1
	n.engine.do(func(*program.Table) { driver{n.programs, n.programs.host}.Session(other, keys) })
	n.part() // a second time
	n.counter = 0
	n.answered(7, 12)
	next := keys
	next.Index = 0x5678
	n.meet(next)
	n.answered(8, 12)
	n.keys, n.counter = keys, 100
	n.answered(9, 12)
}

const returnSource = `PROGRAM back: TRIGGERS 12; BEGIN END; MESSAGE 12: BEGIN SEND PACKET[0] LEN PACKETLEN AS 10 TO 416 AT SOURCE END; END;`

// A program in the driver also answers over IPv6, short messages and the longest possible. The
// other end is the kernel's, which drops frames without a checksum or with a wrong one.
func TestAProgramInTheDriverAnswersOverIPv6(t *testing.T) {
	bed := hosts(t, testbed.Config{Hosts: 2, MTU: 3600})
	if !bed.Host(0).Addr6().IsValid() {
		t.Skip("this kernel has no IPv6")
	}
	server := listen(t, bed.Host(1), bed.Host(1).Addr6())
	// A veth passes the driver's answers to the kernel only if there is a program at the other
	// end, too.
	listen(t, bed.Host(0), bed.Host(0).Addr6())
	var client *udp.Driver
	err := bed.Host(0).Do(func() (err error) {
		client, err = udp.Listen(udp.Config{Addr: netip.AddrPortFrom(bed.Host(0).Addr6(), 0)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	n := newNICOf(t, client, server)
	n.load(returnSource, false)
	k := keys
	k.Most = 3500
	n.meet(k)
	for _, length := range []int{0, 1, 7, 64, 500, 1000, 1500, 1501, 1900, ebpf.MostMessage} {
		want := make([]byte, length)
		for i := range want {
			want[i] = byte(i * 5)
		}
		n.sendBytes(12, want)
		if got := n.answer(); !slices.Equal(got, want) {
			t.Errorf("of %d bytes %d have come back: %x", length, len(got), got)
		}
	}
}

// empty is a command of a process that sends no bytes.
type empty struct{}

func (empty) Read([]byte, uint64) {}

// A program that stops in the driver is stopped. Messages for it that come to the engine are
// refused, too, even if nothing has asked for its state since.
func TestAProgramThatStopsInTheDriverTakesNoMessagesOfTheEngine(t *testing.T) {
	n := newNIC(t)
	n.load(`PROGRAM stops: VAR n; TRIGGERS 1, 2; BEGIN END; MESSAGE 1: BEGIN n = n + 1; DISPLAY n END;
MESSAGE 2: BEGIN SEND n LEN 8 AS 10 TO 416 AT SOURCE; STOP END; END;`, false)
	n.meet(keys)
	command := func(want int) {
		t.Helper()
		n.engine.do(func(table *program.Table) {
			table.Command(empty{}, vm.Destination{Program: programID, Trigger: 1}, 0, false)
			table.Run(0)
			if values, _, err := table.Log(programID, 0); err != nil || len(values) != want {
				t.Errorf("it has displayed %d, %v; want %d values", values, err, want)
			}
		})
	}
	command(1)
	n.answered(1, 2)
	command(1)
	n.engine.do(func(table *program.Table) {
		if info, _ := table.Info(programID); info.State() != "stopped" || info.Profile.Refused != 1 || info.Profile.Activations != 3 {
			t.Errorf("it is %s: %+v", info.State(), info.Profile)
		}
	})
}

// A program in the driver that the engine stops, here for messages to itself, is stopped in the
// driver, too.
func TestAProgramThatTheEngineStopsIsStoppedInTheDriver(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.load(`PROGRAM self: VAR n; TRIGGERS 1, 2; BEGIN END; MESSAGE 1: BEGIN n = n + 1; SEND n LEN 8 AS 1 TO 415 AT SOURCE END;
MESSAGE 2: BEGIN SEND n LEN 8 AS 10 TO 416 AT SOURCE END; END;`, false)
	n.meet(keys)
	n.answered(0, 2)
	handled := uint64(0)
	n.engine.do(func(table *program.Table) {
		table.Command(empty{}, vm.Destination{Program: programID, Trigger: 1}, 0, false)
		for table.Pending() > 0 {
			table.Run(0)
		}
		info, _ := table.Info(programID)
		if info.State() != "stopped" || info.LastAbort != vm.Recursion {
			t.Fatalf("it is %s for %v", info.State(), info.LastAbort)
		}
		handled = info.Profile.Activations
	})
	n.send(2)
	n.eventually("another message has come", func(table *program.Table) bool {
		info, _ := table.Info(programID)
		return info.Profile.Refused > 0 || info.Profile.Activations > handled
	})
	n.engine.do(func(table *program.Table) {
		if info, _ := table.Info(programID); info.Profile.Activations > handled {
			t.Error("it has handled a message since")
		}
	})
}

// If a program was aborted in the driver for several causes, the last is listed, with its line,
// also after it has left the driver.
func TestTheLastOfSeveralAbortsInTheDriverIsListed(t *testing.T) {
	n := newNIC(t)
	const source = `PROGRAM fails: VAR n; TRIGGERS 1, 2; BEGIN END;
MESSAGE 1: BEGIN n = 1 / n END;
MESSAGE 2: BEGIN n = PACKET[7] END; END;`
	n.load(source, false)
	n.meet(keys)
	want := func(aborts uint64, cause vm.Cause, line int) {
		t.Helper()
		n.eventually("the messages are handled", func(table *program.Table) bool {
			info, ok := table.Info(programID)
			return ok && info.Profile.Aborted() == aborts
		})
		n.engine.do(func(table *program.Table) {
			if info, _ := table.Info(programID); info.LastAbort != cause || info.Profile.LastLine != line {
				t.Errorf("of %d aborts the last was %v in line %d; want %v in line %d", aborts, info.LastAbort, info.Profile.LastLine, cause, line)
			}
		})
	}
	n.send(1)
	want(1, vm.DivideByZero, 2)
	n.send(2)
	want(2, vm.OutOfPacket, 3)
	m := module(t, source)
	n.engine.do(func(table *program.Table) {
		if _, _, err := table.Load(program.Spec{Module: m, ID: programID, Replace: true, Start: true}); err != nil {
			t.Error(err)
		}
	})
	want(2, vm.OutOfPacket, 3)
}

// The engine handles a message of a program in the driver with the variables there, and allocates
// nothing for it.
func TestTheEngineHandlesAMessageOfAProgramInTheDriverWithoutAllocating(t *testing.T) {
	n := newNIC(t)
	n.load("PROGRAM counts: VAR n, v[1000]; TRIGGERS 1; BEGIN n = 40 END; MESSAGE 1: BEGIN n = n + 1; v[999] = n END; END;", false)
	n.engine.do(func(table *program.Table) {
		handle := func() {
			if err := table.Post(programID, 1, nil); err != nil {
				t.Fatal(err)
			}
			table.Run(0)
		}
		handle() // the first call makes what later calls reuse
		if got := testing.AllocsPerRun(100, handle); got != 0 {
			t.Errorf("a message allocates %v times", got)
		}
		info, _ := table.Info(programID)
		if !info.InDriver || info.Profile.Activations != 103 { // the initialisation counts as one
			t.Errorf("in the driver: %v; %d activations", info.InDriver, info.Profile.Activations)
		}
		if err := table.Unload(programID); err != nil {
			t.Error(err)
		}
	})
}

const takeSource = `PROGRAM take: TRIGGERS 1, 2, 3; BEGIN END;
MESSAGE 1: BEGIN DISPLAY PACKET[0] END;
MESSAGE 2: BEGIN DELIVER PACKET[0] OFFSET 8 INTO 1 LEN 8; CLEAR LOCK 257; SET FLAG 258 END;
MESSAGE 3: BEGIN IF LOCK(257) THEN DISPLAY 1 ELSE DISPLAY 0 END; END;`

func (n *nicTest) shows(want ...int64) {
	n.t.Helper()
	n.eventually("the program's log is as expected", func(table *program.Table) bool {
		values, _, err := table.Log(programID, 0)
		return err == nil && slices.Equal(values, want)
	})
}

func TestWhatIsDisplayedComesToTheLogInOrder(t *testing.T) {
	n := newNIC(t)
	n.load(takeSource, false)
	n.meet(keys)
	var want []int64
	for v := range int64(20) {
		n.send(1, uint64(v*v))
		want = append(want, v*v)
	}
	n.shows(want...)
}

// A program in the driver reaches a segment of its NIC: it delivers, reads and clears locks, and
// rings when it sets a flag.
func TestAFlagOfASegmentRings(t *testing.T) {
	n := newNIC(t)
	s, err := n.programs.AddSegment(1, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	locks, flags := program.SegmentSync(s.Bytes[:64+program.SegmentTail])
	n.load(takeSource, false)
	n.meet(keys)
	atomic.StoreUint32(&locks[1], 1)
	n.send(3)
	n.shows(1)
	n.send(2, 4711)
	n.eventually("segment 1 rings", func(*program.Table) bool { return slices.Contains(n.engine.rang, 1) })
	if got := binary.LittleEndian.Uint64(s.Bytes[8:]); got != 4711 || atomic.LoadUint32(&flags[2]) != 1 || atomic.LoadUint32(&locks[1]) != 0 {
		t.Errorf("delivered %d; flag %d, lock %d", got, flags[2], locks[1])
	}
	n.send(3)
	n.shows(1, 0)
}

// gathers makes displayed values gather until over is closed. gathering gets a value when that
// begins; from then on the ring is not read.
func (n *nicTest) gathers() (gathering <-chan struct{}, over chan struct{}) {
	began, over := make(chan struct{}), make(chan struct{})
	n.programs.gather = func() {
		select {
		case began <- struct{}{}:
		case <-over:
		}
		<-over
	}
	return began, over
}

// While displayed values gather, before they are copied to the logs, a flag that a program sets
// rings nevertheless.
func TestAFlagRingsWhileDisplaysGather(t *testing.T) {
	n := newNIC(t)
	s, err := n.programs.AddSegment(1, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gathering, over := n.gathers()
	defer close(over) // before the segment and the programs are closed
	n.load(takeSource, false)
	n.meet(keys)
	n.send(1, 7)
	<-gathering
	n.shows(7)
	n.send(1, 8)
	n.send(2, 4711)
	n.eventually("segment 1 rings", func(*program.Table) bool { return slices.Contains(n.engine.rang, 1) })
	n.shows(7) // what was displayed since still gathers
}

// Losses in the driver are reported with the program: a message whose counter was taken, and
// values for which the ring has no room.
func TestWhatIsLostInTheDriverIsSaid(t *testing.T) {
	n := newNIC(t)
	gathering, over := n.gathers()
	defer close(over) // before the programs are closed
	n.load(`PROGRAM shows: VAR n; TRIGGERS 1, 2; BEGIN END;
MESSAGE 1: BEGIN n = 0; WHILE n < 6000 DO BEGIN DISPLAY n; n = n + 1 END END;
MESSAGE 2: BEGIN DISPLAY n END;
END;`, false)
	n.meet(keys)
	n.send(2)
	<-gathering // the ring is not read now: otherwise it would be, while the program displays
	lost := func(what string, is func(program.Losses) bool) {
		t.Helper()
		n.eventually(what, func(table *program.Table) bool { info, _ := table.Info(programID); return is(info.Lost) })
	}
	n.send(1)
	lost("values are lost", func(l program.Losses) bool { return l.Displays >= 6000-3*ebpf.MostTold/2 })
	n.counter--
	n.send(2)
	lost("a message has come before", func(l program.Losses) bool { return l.Overtaken == 1 })
	n.engine.do(func(table *program.Table) {
		if info, _ := table.Info(programID); info.Lost.Answers+info.Lost.Busy != 0 || info.Profile.Activations != 3 {
			t.Errorf("%+v is lost, and there were %d activations", info.Lost, info.Profile.Activations)
		}
	})
}

// A program in the driver finds a segment that is made later, until it is removed. The program
// goes on with its variables meanwhile. A new segment with the same number is a different one.
func TestAProgramInTheDriverFindsSegmentsThatComeLater(t *testing.T) {
	n := newNIC(t)
	n.load(`PROGRAM keep: VAR n, v; TRIGGERS 1, 12; BEGIN END;
MESSAGE 1: BEGIN DELIVER PACKET[0] OFFSET 0 INTO 3 LEN 8; SET FLAG 768 END;
MESSAGE 12: BEGIN n = n + 1; GET v OFFSET 0 FROM 3 LEN 8; v = v * 1000 + n; SEND v LEN 8 AS 10 TO 416 AT SOURCE END;
END;`, false)
	n.meet(keys)
	aborted := func(want uint64) {
		t.Helper()
		n.eventually("activations without a segment are aborted", func(table *program.Table) bool {
			info, ok := table.Info(programID)
			return ok && info.Profile.Aborts[vm.SegmentRefused] == want
		})
	}
	n.send(12)
	aborted(1)
	for round := range uint64(3) {
		s, err := n.programs.AddSegment(3, 64<<round)
		if err != nil {
			t.Fatal(err)
		}
		n.engine.do(func(*program.Table) { n.engine.rang = nil })
		n.answered(2+2*round, 12) // of zeros
		n.send(1, 40+round)
		n.eventually("segment 3 rings", func(*program.Table) bool { return slices.Contains(n.engine.rang, 3) })
		if got := binary.LittleEndian.Uint64(s.Bytes); got != 40+round {
			t.Errorf("delivered %d; expected %d", got, 40+round)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		n.send(12)
		aborted(2 + round)
	}
}

func TestSegmentsThatCannotBeAreRefused(t *testing.T) {
	n := newNIC(t)
	if _, err := n.programs.AddSegment(1, ebpf.MostSegment+1); err == nil || !strings.Contains(err.Error(), "16777216 bytes; at most 16777215") {
		t.Errorf("%v", err)
	}
	s, err := n.programs.AddSegment(1, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if most := 4096 + program.SegmentTail; len(s.Bytes) < most || program.SegmentTail != 8*limits.SegmentWords {
		t.Errorf("%d bytes; expected %d or more", len(s.Bytes), most)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A segment is hidden while it is mapped. Then another may have its number, also when the first
// is closed.
func TestASegmentThatIsHiddenMakesWayForAnother(t *testing.T) {
	n := newNIC(t)
	n.load(takeSource, false)
	n.meet(keys)
	first, err := n.programs.AddSegment(1, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Hide(); err != nil {
		t.Fatal(err)
	}
	second, err := n.programs.AddSegment(1, 128)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Bytes[0] = 1
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	n.send(2, 4711)
	n.eventually("segment 1 rings", func(*program.Table) bool { return slices.Contains(n.engine.rang, 1) })
	if got := binary.LittleEndian.Uint64(second.Bytes[8:]); got != 4711 {
		t.Errorf("delivered %d to the second", got)
	}
}

// Close ends the copying of displayed values, however many come, and afterwards nothing is
// answered.
func TestClosingWhileAProgramDisplays(t *testing.T) {
	n := newNIC(t)
	n.load(takeSource, false)
	n.meet(keys)
	closed := make(chan error, 1)
	for v := range uint64(500) {
		n.send(1, v)
		if v == 100 {
			go func() { closed <- n.programs.Close() }()
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := n.programs.Prepare(1, module(t, echoSource)); err == nil || !strings.Contains(err.Error(), "the NIC is closed") {
		t.Errorf("%v", err)
	}
	if err := n.programs.Close(); err != nil {
		t.Error(err)
	}
}

// unchained is a link that cannot be chained at first.
type unchained struct {
	*xdp.Driver
	fails int
}

var errChain = errors.New("no chain today")

func (u *unchained) Chain(steps *cilium.Map, first, on uint32) error {
	if u.fails--; u.fails >= 0 {
		return errChain
	}
	return u.Driver.Chain(steps, first, on)
}

// A link that refuses the chain refuses the program. For the next program, everything is as
// before.
func TestALinkThatRefusesTheChainRefusesTheProgram(t *testing.T) {
	n := newNIC(t)
	n.programs.cfg.Link = &unchained{n.server, 1}
	if _, err := n.programs.Prepare(programID, module(t, echoSource)); !errors.Is(err, errChain) {
		t.Fatalf("%v", err)
	}
	n.load(echoSource, false)
	n.meet(keys)
	n.answered(6, 12)
}
