package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// delivertest writes the same first word to the segment as in a daemon: 4,096, the last length.
func TestDelivertestRunsInASimulatedNIC(t *testing.T) {
	source, err := os.ReadFile("../examples/programs/delivertest.pdl")
	if err != nil {
		t.Fatal(err)
	}
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 1})
	s, err := f.Segment(0, 1, 4<<10)
	if err != nil {
		t.Fatal(err)
	}
	id := load(t, f, 0, 413, string(source))
	if err := simulated.Engine(f, 0).Programs().Post(id, 1, nil); err != nil {
		t.Fatal(err)
	}
	simulated.Turn(f, 0)
	if err := f.Settle(time.Second); err != nil {
		t.Fatal(err)
	}
	info, _ := simulated.Engine(f, 0).Programs().Info(id)
	if got := shown(t, simulated.Engine(f, 0), id); len(got) != 4 || info.Profile.Activations != 6 || info.Profile.Aborted() != 0 {
		t.Errorf("it shows %v in %d activations, %d of them aborted; a daemon's shows 4 values in 6", got, info.Profile.Activations, info.Profile.Aborted())
	}
	if n := binary.LittleEndian.Uint64(s.Bytes()); n != 4096 {
		t.Errorf("the segment begins with %d, in a daemon with 4096", n)
	}
}

// turn negates a word of segment 2 if lock 3 is set, clears the lock and sets flag 5.
const turn = `PROGRAM turn: VAR v; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN IF LOCK(515) THEN BEGIN
    GET v OFFSET 8 FROM 2 LEN 8; v = -v; DELIVER v OFFSET 16 INTO 2 LEN 8; CLEAR LOCK 515; SET FLAG 517
END END; END;`

// Two processes and a program work on one segment in turns. The flag wakes the process that waits
// for it.
func TestSimulatedProcessesShareASegmentWithAProgram(t *testing.T) {
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 1})
	id := load(t, f, 0, 9, turn)
	kept, err := f.Segment(0, 2, 100)
	if err != nil {
		t.Fatal(err)
	}
	var answers []int64
	f.Process(0, "reader/0", func(p *sim.Process) error {
		s, err := p.SharedSegment(2, 100)
		if err != nil {
			return err
		}
		for range 10 {
			if err := s.WaitFlag(context.Background(), 5); err != nil {
				return err
			}
			answers = append(answers, int64(binary.LittleEndian.Uint64(s.Bytes()[16:])))
		}
		return s.Close()
	})
	f.Process(0, "writer/0", func(p *sim.Process) error {
		s, err := p.SharedSegment(2, 100)
		if err != nil {
			return err
		}
		for i := range uint64(10) {
			binary.LittleEndian.PutUint64(s.Bytes()[8:], i+1)
			if !s.Lock(3) {
				return errors.New("the lock was set")
			}
			if err := simulated.Half(p).SendProgram(context.Background(), 0, uint32(id), 1, true); err != nil {
				return err
			}
			for len(answers) <= int(i) {
				p.Runtime().Sleep(context.Background(), time.Millisecond)
			}
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := []int64{-1, -2, -3, -4, -5, -6, -7, -8, -9, -10}; !slices.Equal(answers, want) {
		t.Errorf("the program has delivered %v, expected %v", answers, want)
	}
	if kept.Locked(3) || kept.Flag(5) || !kept.Lock(3) || !kept.Locked(3) || len(kept.Bytes()) != 104 {
		t.Error("the segment is not as the processes left it")
	}
}

func TestASimulatedSegmentGoesWithTheLastThatHasIt(t *testing.T) {
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 1})
	kept, err := f.Segment(0, 1, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id    uint32
		bytes int
	}{{1, 64}, {2, 0}, {2, 64<<20 + 1}} {
		if _, err := f.Segment(0, c.id, c.bytes); !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("segment %d of %d bytes: %v", c.id, c.bytes, err)
		}
	}
	engine := simulated.Engine(f, 0)
	f.Process(0, "a/0", func(p *sim.Process) error {
		if _, err := p.SharedSegment(1, 128); !errors.Is(err, weft.ErrBadArgument) {
			return fmt.Errorf("another length: %v", err)
		}
		s, err := p.SharedSegment(1, 64)
		if err != nil {
			return err
		}
		if _, err := p.SharedSegment(2, 8); err != nil { // the end of the process releases it
			return err
		}
		kept.Delete()
		kept.Delete()
		if _, err := f.Segment(0, 1, 8); !errors.Is(err, weft.ErrBadArgument) {
			return fmt.Errorf("a process has the segment, and another is made: %v", err)
		}
		return s.Close()
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := f.Settle(time.Second); err != nil {
		t.Fatal(err)
	}
	for id := range uint32(3) {
		if engine.Programs().RemoveSegment(id) == nil {
			t.Errorf("segment %d is there, though nothing has it", id)
		}
	}
}
