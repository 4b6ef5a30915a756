package program

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// tellSource displays the words that it sees, and delays by the tag.
const tellSource = `PROGRAM tell: VAR i; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN i = 0; WHILE i < PACKETLEN / 8 DO BEGIN DISPLAY PACKET[i]; i = i + 1 END; PASS AFTER PACKET[1] END; END;`

func guardingOut(name vni.Name) func(*Spec) {
	return func(s *Spec) { s.Guards, s.Trigger, s.Outgoing = name, 1, true }
}

func TestAGuardOfOutgoingMessagesSeesWhatIsSentAndDelaysIt(t *testing.T) { // PANIC-7
	n := newNIC(t)
	n.put(10, tellSource, guardingOut(guardedName))
	judge := n.engine.ways[guardedName]
	delay, pass := judge(&Departure{Bytes: 70_000, Tag: 250, Kind: DepartsPut, NIC: 9, Number: ProcessNumber(3, 4)})
	if !pass || delay != 250*time.Nanosecond {
		t.Errorf("it passes %v after %v, expected after 250 ns", pass, delay)
	}
	if got, want := n.shown(10), []int64{70_000, 250, 2, 9, int64(ProcessNumber(3, 4))}; !slices.Equal(got, want) {
		t.Errorf("it sees %v, expected %v", got, want)
	}
	if _, pass := judge(&Departure{Tag: 10_000_000_001}); pass {
		t.Error("a delay of more than 10 s passes")
	}
	if delay, pass = judge(&Departure{}); !pass || delay != 0 {
		t.Errorf("without a delay it passes %v after %v", pass, delay)
	}
	if info, _ := n.Info(10); info.Delayed != 1 || info.Dropped != 1 || info.LastAbort.String() != "bad delay" {
		t.Errorf("%d messages are counted as delayed and %d as refused; the last for %v", info.Delayed, info.Dropped, info.LastAbort)
	}
}

func TestAProcessHasOneGuardForEachDirection(t *testing.T) { // PANIC-7
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName))
	n.put(11, tellSource, guardingOut(guardedName))
	n.wantPassed("beside the guard of outgoing messages", guardedName, 1)
	_, _, err := n.Load(Spec{Module: module(t, tellSource), ID: 12, Guards: guardedName, Outgoing: true, Trigger: 1})
	if !errors.Is(err, ErrGuarded) || !strings.Contains(err.Error(), "11 (tell) guards outgoing messages of app/3") {
		t.Errorf("a second guard of outgoing messages: %v", err)
	}
	n.put(11, strings.Replace(tellSource, "PASS AFTER PACKET[1]", "DROP", 1), replacing)
	if _, pass := n.engine.ways[guardedName](&Departure{}); pass {
		t.Error("what replaces the guard of outgoing messages does not guard them")
	}
	n.wantPassed("when the other has been replaced", guardedName, 1)
	if err := n.Unload(11); err != nil || n.engine.ways[guardedName] != nil {
		t.Errorf("%v; it is unloaded, and still guards", err)
	}
	n.wantPassed("when the other is unloaded", guardedName, 1)
	if err := n.Unload(10); err != nil {
		t.Fatal(err)
	}
	n.wantPassed("without guards", guardedName, 1, 2)
}

func TestAProgramThatDelaysDoesNotGuardIncomingMessages(t *testing.T) { // PANIC-7
	n := newNIC(t)
	_, _, err := n.Load(Spec{Module: module(t, tellSource), ID: 12, Guards: guardedName, Trigger: 1})
	if !errors.Is(err, ErrDelays) || !strings.Contains(err.Error(), "expected a guard of outgoing messages") {
		t.Errorf("%v", err)
	}
}
