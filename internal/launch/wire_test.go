package launch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// fromLauncher and fromKeeper hold one message of each kind.
var (
	fromLauncher = []message{
		startMsg{time.Second, true, []byte(`{"argv":`)}, stdinMsg{3, []byte("a line\n")}, stdinMsg{3, nil}, signalMsg{15},
		endMsg{time.Second, 3 * time.Second}, ackMsg{}, pingMsg{time.Hour}, askMsg{time.Minute}, releaseMsg{true, []entry{{"key", "value"}, {"other", ""}}}, releaseMsg{false, nil},
		stageMsg{4, []byte(`{"files":[]}`)},
	}
	fromKeeper = []message{
		outputMsg{7, Stderr, []byte("a line\n")}, wantMsg{7}, stateMsg{7, true},
		&endedMsg{Exit{Rank: 7, PID: 4711, Signal: 9, OOM: "cgroup limit 512 MiB"}, time.Second, -5},
		&Summary{Survivors: []Survivor{{Rank: 7, PID: 4711, Why: "uninterruptible"}}}, barrierMsg{false, []entry{{"key", "value"}}},
		abortMsg{7, -1, "no input file"}, endingMsg{true, "asked"}, clockMsg{time.Minute, time.Hour},
		stagedMsg{[]ctl.Refusal{{What: "program", Text: "no room"}}},
	}
)

func TestEveryMessageArrivesAsItWasSent(t *testing.T) {
	for i, list := range [][]message{fromLauncher, fromKeeper} {
		for _, m := range list {
			b := m.append(nil)
			got, err := parse(b, i == 1)
			if err != nil || !reflect.DeepEqual(normal(got), normal(m)) {
				t.Errorf("%#v arrives as %#v, %v", m, got, err)
			}
			if _, err := parse(b, i == 0); !errors.Is(err, errMalformed) {
				t.Errorf("%#v from the wrong side: %v; expected %v", m, err, errMalformed)
			}
		}
	}
}

// normal returns a message with nil instead of empty data.
func normal(m message) message {
	if s, ok := m.(stdinMsg); ok && len(s.data) == 0 {
		return stdinMsg{rank: s.rank}
	}
	return m
}

// Every message cut short is refused, except where the data may end anywhere.
func TestEveryTruncatedMessageIsRefused(t *testing.T) {
	open := map[string]int{ // bytes before data that may have any length
		"launch.startMsg": 10, "launch.stdinMsg": 5, "launch.stageMsg": 5, "launch.outputMsg": 6, "launch.abortMsg": 9, "launch.endingMsg": 2,
	}
	for i, list := range [][]message{fromLauncher, fromKeeper} {
		for _, m := range list {
			b := m.append(nil)
			for n := range b {
				_, err := parse(b[:n], i == 1)
				fixed, any := open[fmt.Sprintf("%T", m)]
				if cut := any && n >= fixed || isBoundary(m, b[:n]); cut != (err == nil) {
					t.Errorf("%T of %d bytes cut to %d: %v", m, len(b), n, err)
				}
			}
		}
	}
}

// isBoundary reports whether a message of entries was cut between two entries.
func isBoundary(m message, b []byte) bool {
	var list []entry
	switch m := m.(type) {
	case releaseMsg:
		list = m.entries
	case barrierMsg:
		list = m.entries
	}
	for n := range list {
		if bytes.Equal(b, putEntries(nil, kind(m.append(nil)[0]), m.append(nil)[1] == 1, list[:n])) {
			return true
		}
	}
	return false
}

func TestMessagesBeyondTheirBoundsAreRefused(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, maxPiece+1)
	for what, b := range map[string][]byte{
		"no kind":             {},
		"unknown kind":        {0x3f},
		"output too long":     outputMsg{0, Stdout, long}.append(nil),
		"input too long":      stdinMsg{0, long}.append(nil),
		"stream 3":            {byte(kindOutput), 0, 0, 0, 0, 3},
		"negative rank":       wantMsg{-1}.append(nil),
		"rank too large":      wantMsg{1 << 20}.append(nil),
		"bytes after a want":  append(wantMsg{1}.append(nil), 0),
		"flag of 2":           {byte(kindState), 0, 0, 0, 0, 2},
		"signal 0":            signalMsg{0}.append(nil),
		"negative grace":      endMsg{0, -1}.append(nil),
		"grace too long":      endMsg{0, MaxGrace + 1}.append(nil),
		"exit of no JSON":     append([]byte{byte(kindEnded)}, "seven"...),
		"unknown field":       append([]byte{byte(kindEnded)}, `{"rank":1,"room":2}`...),
		"two objects":         append([]byte{byte(kindEnded)}, `{"rank":1}{"rank":2}`...),
		"status 256":          (&endedMsg{Exit: Exit{Status: 256}}).append(nil),
		"negative clock":      pingMsg{-1}.append(nil),
		"clock too far":       pingMsg{ever + 1}.append(nil),
		"death before birth":  (&endedMsg{DiedAt: -1}).append(nil),
		"death too late":      (&endedMsg{DiedAt: ever + 1}).append(nil),
		"too far ahead":       (&endedMsg{Ahead: ahead(ever + 1)}).append(nil),
		"too far behind":      (&Summary{Ahead: ahead(-ever - 1)}).append(nil),
		"summary too long":    append([]byte{byte(kindGone)}, long...),
		"failure too long":    (&Summary{Failure: strings.Repeat("x", 2000)}).append(nil),
		"empty key":           {byte(kindBarrier), 0, 0, 0, 0},
		"value too long":      putEntries(nil, kindBarrier, false, []entry{{"k", strings.Repeat("v", MaxValueBytes+1)}}),
		"too many entries":    putEntries(nil, kindBarrier, false, slicesOf(entry{"k", strings.Repeat("v", MaxValueBytes)}, 9)),
		"abort text too long": append(abortMsg{0, 1, ""}.append(nil), bytes.Repeat([]byte{'x'}, maxAbortText+1)...),
	} {
		fromKeeper := len(b) > 0 && kind(b[0]) >= kindOutput
		if m, err := parse(b, fromKeeper); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %#v, %v; expected %v", what, m, err, errMalformed)
		}
	}
}

func slicesOf(e entry, n int) (l []entry) {
	for range n {
		l = append(l, e)
	}
	return l
}

func TestALongStartArrivesInPieces(t *testing.T) {
	s := &Start{Job: "job-00000001", Argv: []string{"p", strings.Repeat("a", 3*maxPiece)}, Program: "/p", Dir: "/", Ranks: []int{4, 5}, Size: 6}
	var text []byte
	pieces := s.pieces()
	for i, p := range pieces {
		m, err := parse(p.append(nil), false)
		if err != nil || m.(startMsg).more != (i < len(pieces)-1) {
			t.Fatalf("piece %d: %v", i, err)
		}
		text = append(text, m.(startMsg).data...)
	}
	got, err := parseStart(text)
	if err != nil || !reflect.DeepEqual(got, s) || len(pieces) != 4 {
		t.Errorf("%d pieces, %v", len(pieces), err)
	}
}

func TestAStartThatNoLauncherSendsIsRefused(t *testing.T) {
	good := Start{Argv: []string{"p"}, Program: "/p", Dir: "/", Ranks: []int{0}, Size: 1}
	for what, change := range map[string]func(*Start){
		"no arguments":     func(s *Start) { s.Argv = nil },
		"no ranks":         func(s *Start) { s.Ranks = nil },
		"rank beyond size": func(s *Start) { s.Ranks = []int{1} },
		"a rank twice":     func(s *Start) { s.Ranks, s.Size = []int{0, 0}, 2 },
		"negative grace":   func(s *Start) { s.Grace = -1 },
		"negative memory":  func(s *Start) { s.MemoryBytes = -1 },
	} {
		s := good
		change(&s)
		if _, err := parseStart(marshal(&s)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v; expected %v", what, err, errMalformed)
		}
	}
	if _, err := parseStart(marshal(&good)); err != nil {
		t.Error(err)
	}
}

// A parsed message encodes to the same bytes again, unless JSON is in it.
func FuzzParse(f *testing.F) {
	for i, list := range [][]message{fromLauncher, fromKeeper} {
		for _, m := range list {
			f.Add(m.append(nil), i == 1)
		}
	}
	f.Add([]byte{byte(kindEnding), 1, 0x80}, true) // not UTF-8
	f.Fuzz(func(t *testing.T, b []byte, fromKeeper bool) {
		m, err := parse(b, fromKeeper)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("%v; expected %v", err, errMalformed)
			}
			return
		}
		again := m.append(nil)
		switch m.(type) {
		case *endedMsg, *Summary, stagedMsg:
			if m, err := parse(again, fromKeeper); err != nil {
				t.Fatalf("%#v does not parse again: %v", m, err)
			}
		default:
			if !bytes.Equal(again, b) {
				t.Fatalf("%x parses as %#v, which is %x", b, m, again)
			}
		}
	})
}

func FuzzParseStart(f *testing.F) {
	f.Add(marshal(&Start{Argv: []string{"p"}, Program: "/p", Dir: "/", Ranks: []int{0}, Size: 1}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStart(text); err == nil && s.check() != nil {
			t.Fatalf("%q parses as %+v", text, s)
		}
	})
}
