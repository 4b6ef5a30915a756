package resident

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/pdl/vm"
)

// driverMaps counts the maps of the driver that this process has mapped, and those that it has
// open.
func driverMaps(t *testing.T) (mapped, open int) {
	t.Helper()
	all, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "/proc/self/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && strings.Contains(to, "bpf-map") {
			open++
		}
	}
	return strings.Count(string(all), "bpf-map"), open
}

// A segment that is closed leaves the process neither memory nor a descriptor.
func TestASegmentThatIsClosedLeavesNothing(t *testing.T) {
	p := New(Config{})
	mapped, open := driverMaps(t)
	for range 3 {
		s, err := p.AddSegment(1, 64)
		if errors.Is(err, unix.EPERM) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, o := driverMaps(t); m != mapped+1 || o != open+1 {
			t.Fatalf("a segment is mapped %d times, and has %d descriptors", m-mapped, o-open)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if m, o := driverMaps(t); m != mapped || o != open {
			t.Errorf("a closed segment is mapped %d times, and has %d descriptors", m-mapped, o-open)
		}
	}
}

// A segment that a program cannot be compiled with is refused. It leaves nothing, and other
// segments and programs still enter the driver.
func TestASegmentThatIsRefusedLeavesTheOthersAlone(t *testing.T) {
	n := newNIC(t)
	n.load(takeSource, false)
	n.meet(keys)
	mapped, open := driverMaps(t)
	if _, err := n.programs.AddSegment(2, 7); err == nil {
		t.Fatal("a segment of 7 bytes is in the driver")
	}
	if m, o := driverMaps(t); m != mapped || o != open {
		t.Errorf("a refused segment is mapped %d times, and has %d descriptors", m-mapped, o-open)
	}
	s, err := n.programs.AddSegment(1, 64)
	if err != nil {
		t.Fatalf("the next segment: %v", err)
	}
	n.load(takeSource, true)
	n.delivered(s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// delivered sends the program of takeSource a number for segment 1, and wants it there.
func (n *nicTest) delivered(s *Segment) {
	n.t.Helper()
	handled := func(table *program.Table) uint64 {
		info, _ := table.Info(programID)
		return info.Profile.Activations + info.Profile.Aborted()
	}
	var before uint64
	n.engine.do(func(table *program.Table) { before = handled(table) })
	n.send(2, 4711)
	n.eventually("the message is handled", func(table *program.Table) bool { return handled(table) > before })
	n.engine.do(func(table *program.Table) {
		info, _ := table.Info(programID)
		if got := binary.LittleEndian.Uint64(s.Bytes[8:]); got != 4711 || info.Profile.Aborts[vm.SegmentRefused] != 0 {
			n.t.Errorf("segment 1 has %d, and %d messages found no segment", got, info.Profile.Aborts[vm.SegmentRefused])
		}
	})
}

// interrupted is a link with which something happens once, as a program is compiled for it.
type interrupted struct {
	*xdp.Driver
	once func()
}

func (i *interrupted) Frames() (tagged, pieces bool) {
	if once := i.once; once != nil {
		i.once = nil
		once()
	}
	return i.Driver.Frames()
}

// A segment may be made while a program is compiled. The program finds it in the driver.
func TestASegmentThatComesWhileAProgramIsCompiledIsFound(t *testing.T) {
	n := newNIC(t)
	first, err := n.programs.Prepare(programID, module(t, echoSource)) // which begins what programs share
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	var s *Segment
	added := make(chan error, 1)
	add := func() {
		var err error
		s, err = n.programs.AddSegment(1, 64)
		added <- err
	}
	n.programs.cfg.Link = &interrupted{n.server, func() {
		if n.programs.linking.TryLock() { // it comes at once
			n.programs.linking.Unlock()
			add()
		} else {
			go add()
		}
	}}
	n.load(takeSource, false)
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n.meet(keys)
	n.delivered(s)
}
