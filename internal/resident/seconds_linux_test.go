package resident

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/vm"
)

// kernelObjects counts the descriptors of maps and programs of this process, and the mappings of
// maps.
func kernelObjects(t *testing.T) (maps, programs, mapped int) {
	t.Helper()
	const dir = "/proc/self/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(dir + "/" + fd.Name())
		if strings.Contains(to, "bpf-map") {
			maps++
		} else if strings.Contains(to, "bpf-prog") {
			programs++
		}
	}
	all, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return maps, programs, strings.Count(string(all), "bpf-map")
}

// leavesNothing returns a function that expects as many kernel objects as there were at the call.
func leavesNothing(t *testing.T) func() {
	t.Helper()
	maps, programs, mapped := kernelObjects(t)
	return func() {
		t.Helper()
		if m, p, at := kernelObjects(t); m != maps || p != programs || at != mapped {
			t.Errorf("%d maps, %d programs and %d mappings; expected %d, %d and %d", m, p, at, maps, programs, mapped)
		}
	}
}

const fromThreeSource = `PROGRAM three: VAR v; TRIGGERS 12; BEGIN END;
MESSAGE 12: BEGIN GET v OFFSET 0 FROM 3 LEN 8; SEND v LEN 8 AS 10 TO 416 AT SOURCE END; END;`

// A new segment is for every program in the driver, not only for one of them. The programs that
// are replaced for it are released.
func TestEachOfSeveralProgramsFindsANewSegment(t *testing.T) {
	n := newNIC(t)
	n.load(fromThreeSource, false)
	n.meet(keys)
	for id := range 5 { // the order among the programs is random
		r, err := n.programs.Prepare(vm.ID(programID+1+id), module(t, fromThreeSource))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
	}
	nothing := leavesNothing(t)
	for round := range uint64(4) {
		s, err := n.programs.AddSegment(3, 64)
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint64(s.Bytes, 40+round)
		n.send(12)
		if answer := n.answer(); len(answer) != 8 || binary.LittleEndian.Uint64(answer) != 40+round {
			t.Errorf("the answer is %x; expected %d, from the segment", answer, 40+round)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		nothing()
	}
}

// If the programs cannot be compiled without a segment, closing the segment fails, and frees its
// memory and descriptor nevertheless.
func TestASegmentThatCannotBeHiddenIsFreed(t *testing.T) {
	n := newNIC(t)
	n.load(fromThreeSource, false)
	nothing := leavesNothing(t)
	s, err := n.programs.AddSegment(3, 64)
	if err != nil {
		t.Fatal(err)
	}
	n.programs.segments[4] = ebpf.Segment{Bytes: 7}
	if err := s.Close(); err == nil {
		t.Error("programs are compiled for a segment of 7 bytes")
	}
	delete(n.programs.segments, 4)
	nothing()
}

// Several segments may be made at the same time. Each is known afterwards.
func TestSegmentsThatAreMadeConcurrentlyAreAllKnown(t *testing.T) {
	n := newNIC(t)
	var linking atomic.Pointer[func()]
	do := n.programs.cfg.Do
	n.programs.cfg.Do = func(f func(*program.Table)) {
		if begun := linking.Swap(nil); begun != nil {
			(*begun)()
		}
		do(f)
	}
	n.load(fromThreeSource, false)
	const others = 8
	added := make(chan error, 1+others)
	add := func(id uint32) {
		s, err := n.programs.AddSegment(id, 64)
		if err == nil {
			t.Cleanup(func() { s.Close() })
		}
		added <- err
	}
	_, _, before := kernelObjects(t)
	begun := func() { // the first segment is about to change the programs
		for id := range uint32(others) {
			go add(id + 2)
		}
		for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(time.Millisecond) {
			if _, _, mapped := kernelObjects(t); mapped == before+1+others {
				return
			}
		}
	}
	linking.Store(&begun)
	add(1)
	for range 1 + others {
		if err := <-added; err != nil {
			t.Fatal(err)
		}
	}
	if known := len(n.programs.segments); known != 1+others {
		t.Errorf("%d segments are known; expected %d", known, 1+others)
	}
}

// What programs share is removed from the kernel again if the link refuses it.
func TestALinkThatRefusesTheChainLeavesNothing(t *testing.T) {
	n := newNIC(t)
	n.programs.cfg.Link = &unchained{n.server, 2}
	nothing := leavesNothing(t)
	for range 2 {
		if _, err := n.programs.Prepare(programID, module(t, echoSource)); !errors.Is(err, errChain) {
			t.Fatalf("%v", err)
		}
		nothing()
	}
}

// CLOCK in the driver is the engine's clock, not the kernel's.
func TestTheClockInTheDriverIsThatOfTheEngine(t *testing.T) {
	n := newNIC(t)
	begun := kernelClock()
	n.load(`PROGRAM times: VAR n; TRIGGERS 12; BEGIN END;
MESSAGE 12: BEGIN n = CLOCK; SEND n LEN 8 AS 10 TO 416 AT SOURCE END; END;`, false)
	n.meet(keys)
	n.send(12)
	got := int64(binary.LittleEndian.Uint64(n.answer()))
	least := int64(n.engine.Now()) // as the program enters
	if most := least + kernelClock() - begun; got < least || got > most {
		t.Errorf("CLOCK is %d; expected %d to %d", got, least, most)
	}
}

// in returns the only program in the driver.
func (n *nicTest) in() *resident {
	n.t.Helper()
	n.programs.listing.Lock()
	defer n.programs.listing.Unlock()
	if len(n.programs.all) != 1 {
		n.t.Fatalf("%d programs are in the driver; expected one", len(n.programs.all))
	}
	for r := range n.programs.all {
		return r
	}
	return nil
}

// If the engine changes the variables of a program and stops it, the program leaves with the
// changed variables.
func TestAProgramThatTheEngineStopsKeepsWhatItWrote(t *testing.T) {
	n := newNIC(t)
	n.load(echoSource, false)
	n.engine.do(func(*program.Table) {
		r, data := n.in(), make([]int64, module(t, echoSource).DataWords)
		if err := r.Borrow(data, func(stopped bool) bool {
			at := slices.Index(data, 5) // as the initialisation sets it
			if stopped || at < 0 {
				t.Fatalf("stopped: %v, with %v", stopped, data)
			}
			data[at] = 9
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if got, stopped, err := r.Leave(); err != nil || !stopped || !slices.Equal(got, data) {
			t.Errorf("it leaves with %v, stopped: %v, %v; expected %v, stopped", got, stopped, err, data)
		}
	})
}

// A message that comes while the engine has the variables for long is lost, and counted.
func TestAMessageThatFindsTheProgramBusyIsCounted(t *testing.T) {
	n := newNIC(t)
	n.load(echoSource, false)
	n.meet(keys)
	r := n.in()
	if err := r.r.Take(); err != nil {
		t.Fatal(err)
	}
	defer r.r.Give()
	n.send(12)
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, counts, err := r.r.Profile()
		if err != nil {
			t.Fatal(err)
		}
		if counts.Busy > 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("after %v the message is not lost", patience)
		}
	}
	if lost, err := r.Lost(); err != nil || lost != (program.Losses{Busy: 1}) {
		t.Errorf("%+v is lost, %v; expected one message that found it busy", lost, err)
	}
}
