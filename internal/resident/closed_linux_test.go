package resident

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/program"
)

// Close waits for the goroutines that copy displayed values, since its caller ends the engine
// next.
func TestCloseWaitsUntilNothingIsCarriedAnyMore(t *testing.T) {
	n := newNIC(t)
	gathering, over := n.gathers()
	n.load(takeSource, false)
	n.meet(keys)
	host := n.programs.host
	n.send(1, 7)
	<-gathering
	closed := make(chan error, 1)
	go func() { closed <- n.programs.Close() }()
	select {
	case err := <-closed:
		t.Errorf("closed while displays gather: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(over)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, _, err := host.Display(time.Now()); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the ring of what is displayed is open: %v", err)
	}
}

// The table forgets a program that has left the driver, and the engine learns that it is gone.
func TestAProgramThatIsClosedIsForgotten(t *testing.T) {
	n := newNIC(t)
	n.load(echoSource, false)
	n.engine.do(func(table *program.Table) {
		if err := table.Unload(programID); err != nil {
			t.Error(err)
		}
	})
	if left := len(n.programs.all); left != 0 {
		t.Errorf("%d programs are kept", left)
	}
	r, err := n.programs.Prepare(programID, module(t, echoSource))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Enter([]int64{5}); err == nil {
		t.Error("a program that is closed enters the driver")
	}
}

// A segment may be closed after its NIC, whose programs are closed by then. No program is
// compiled anew for that, and the engine is not entered.
func TestASegmentIsClosedAfterThePrograms(t *testing.T) {
	n := newNIC(t)
	n.load(takeSource, false)
	s, err := n.programs.AddSegment(1, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.programs.Close(); err != nil {
		t.Fatal(err)
	}
	n.programs.cfg.Do = func(func(*program.Table)) { t.Error("the engine is entered") }
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
