package main

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
)

// A word of a message is written as in PDL and in weft pdl run.
func TestWordsOfAMessageAreThoseOfPDLRun(t *testing.T) {
	b, err := words([]string{"0xffffffffffffffff", "-1", "18446744073709551615", "0x10", "text:ab", "hex:ff00"})
	all := bytes.Repeat([]byte{0xff}, 24)
	if want := append(append(all, 0x10, 0, 0, 0, 0, 0, 0, 0), 'a', 'b', 0xff, 0); err != nil || !bytes.Equal(b, want) {
		t.Errorf("the words are % x, %v; want % x", b, err, want)
	}
	if b, err := words([]string{"010", "-010", "0", "0o10", "0b10"}); err != nil || !bytes.Equal(b, leWords(10, -10, 0, 8, 2)) {
		t.Errorf("with a zero before them the words are % x, %v", b, err)
	}
	for _, bad := range []string{"0x1ffffffffffffffff", "", "one", "hex:f", "0x", "-", "1_0"} {
		if _, err := words([]string{bad}); err == nil || !strings.Contains(err.Error(), `word "`+bad+`": expected a number`) {
			t.Errorf("the word %q: %v", bad, err)
		}
	}
	if _, err := words([]string{"zero:2049"}); err == nil || !strings.Contains(err.Error(), "2049 bytes: expected at most 2048") {
		t.Errorf("a message that is too long: %v", err)
	}
}

func leWords(all ...int64) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint64(b, uint64(w))
	}
	return b
}

func TestAZeroBeforeTheNumberOfAProgramMeansNothing(t *testing.T) {
	if id, name, err := programTarget("010"); id != 10 || name != "" || err != nil {
		t.Errorf("010 is program %d, %q, %v", id, name, err)
	}
}

func TestATriggerWithoutAProcessToGuardIsRefused(t *testing.T) {
	status, _, stderr := weft("program", "load", "none.pdl", "--trigger", "9")
	if status != exitUsage || !strings.Contains(stderr, "--trigger 9: expected --guard NAME, too") {
		t.Errorf("%d %q", status, stderr)
	}
}

// If there are several triggers, none is the default, not even number 0.
func TestAGuardOfSeveralTriggersIsToldItsOwn(t *testing.T) {
	for triggers, want := range map[string]string{"0, 2": "two has 2 triggers; expected --trigger", "": "two has 0 triggers; expected --trigger"} {
		text := "PROGRAM two: BEGIN END; END"
		if triggers != "" {
			text = "PROGRAM two: TRIGGERS " + triggers + "; BEGIN END; MESSAGE 0: BEGIN PASS END; MESSAGE 2: BEGIN DROP END; END"
		}
		status, _, stderr := weft("program", "load", source(t, "two.pdl", text), "--guard", "app/3", "--socket", "none")
		if status != exitUsage || !strings.Contains(stderr, "--guard app/3: "+want) {
			t.Errorf("triggers %q: %d %q", triggers, status, stderr)
		}
	}
}

func TestHelpOfLoadSaysWhatHappensOnManyNICs(t *testing.T) {
	_, out, _ := weft("program", "load", "--help")
	for _, want := range []string{"prepare  ", "commit  ", "roll back  ", "--replace --id N", "With --all, each NIC selects it", "is dropped within 30s"} {
		if !strings.Contains(out, want) {
			t.Errorf("the help does not say %q:\n%s", want, out)
		}
	}
}

// The time of activations in the driver is not known, so no time of one activation is shown.
func TestAProfileShowsNoTimeOfWhatTheDriverHasRun(t *testing.T) {
	for where, want := range map[string][]string{
		"":              {"time 3µs\n", "of one 5 instructions, 1µs\n"},
		ctl.ResidentVM:  {"time 3µs\n", "of one 5 instructions, 1µs\n"},
		ctl.ResidentXDP: {"time 3µs in the virtual machine; the driver takes no times\n", "of one 5 instructions\n"},
	} {
		var out bytes.Buffer
		if err := printProfile(&out, &ctl.ProgramInfo{Resident: where, Activations: 3, Instructions: 15, Time: 3000}); err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile(" +").ReplaceAllString(out.String(), " ")
		for _, w := range want {
			if !strings.Contains(lines, w) {
				t.Errorf("resident %q: the profile is\n%s\nwithout %q", where, lines, w)
			}
		}
	}
}

func TestAProfileShowsWhatTheDriverHasLost(t *testing.T) {
	var out bytes.Buffer
	err := printProfile(&out, &ctl.ProgramInfo{Resident: ctl.ResidentXDP, Lost: map[string]uint64{"messages that found it busy": 2, "answers that could not leave": 9}})
	if err != nil || !regexp.MustCompile(`(?m)^lost +9 answers that could not leave\nlost +2 messages that found it busy$`).MatchString(out.String()) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestOutgoingWithoutAProcessToGuardIsRefused(t *testing.T) {
	status, _, stderr := weft("program", "load", "none.pdl", "--outgoing")
	if status != exitUsage || !strings.Contains(stderr, "--outgoing: expected --guard NAME, too") {
		t.Errorf("%d %q", status, stderr)
	}
}

func TestAProfileOfAGuardOfOutgoingMessagesShowsWhatItHasDelayed(t *testing.T) {
	var out bytes.Buffer
	err := printProfile(&out, &ctl.ProgramInfo{Guards: "app/3", Outgoing: true, Dropped: 7, Delayed: 9})
	if err != nil || !regexp.MustCompile(`(?m)^guards +outgoing messages of app/3, and has dropped 7 messages\ndelayed +9 messages$`).MatchString(out.String()) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestAProfileOfAGuardShowsWhatItHasDropped(t *testing.T) {
	var out bytes.Buffer
	if err := printProfile(&out, &ctl.ProgramInfo{Guards: "app/3", Dropped: 7}); err != nil || !strings.Contains(out.String(), "app/3, and has dropped 7 messages\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
