package pdl

import (
	"slices"
	"strings"
	"testing"
)

// messages returns the texts of a source's errors.
func messages(source string) (all []string) {
	_, _, err := compile("test.pdl", []byte(source))
	errs, _ := err.(Errors)
	for _, e := range errs {
		all = append(all, e.Msg)
	}
	return all
}

// The smallest word has no positive counterpart, so its digits are a number only after a minus.
func TestTheLeastWordCanBeWritten(t *testing.T) {
	const refused = "9223372036854775808 is no number: expected digits, and at most 9223372036854775807"
	for text, want := range map[string][]string{
		"-9223372036854775808":       nil,
		"1 + -9223372036854775808":   nil,
		"(-9223372036854775808) / 2": nil,
		"-0x8000000000000000":        nil,
		"9223372036854775808":        {refused},
		"1 - 9223372036854775808":    {refused},
		"~9223372036854775808":       {refused},
		"-9223372036854775809":       {"9223372036854775809 is no number: expected digits, and at most 9223372036854775807"},
	} {
		source := "PROGRAM p: CONST c = " + text + "; VAR v; BEGIN v = c END; END;"
		if got := messages(source); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if want != nil {
			continue
		}
		formatted, err := Format("test.pdl", []byte(source))
		if err != nil || !strings.Contains(string(formatted), text) {
			t.Errorf("%s is formatted as %s, %v", text, formatted, err)
		}
	}
	r := newReport("test.pdl", nil)
	p := parse([]byte("PROGRAM p: CONST least = -9223372036854775808, half = -9223372036854775808 / 2; BEGIN END; END;"), r)
	check(p, r)
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{-1 << 63, -1 << 62} {
		if got := p.Consts[i].value; got != want {
			t.Errorf("constant %d is %d, want %d", i, got, want)
		}
	}
}

// A number of a lock, flag or segment that no NIC can have is an error if the source shows it.
func TestLocksFlagsAndSegmentsThatCannotBeAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"SET FLAG 1099511627775": "",
		"SET FLAG -1":            "FLAG -1: a flag is a number from 0 to 1099511627775",
		"SET FLAG far":           "FLAG 1099511627776: a flag is a number from 0 to 1099511627775",
		"CLEAR LOCK 3 - 5":       "LOCK -2: a lock is a number from 0 to 1099511627775",
		"v = LOCK(-1)":           "LOCK -1: a lock is a number from 0 to 1099511627775",
		"IF LOCK(0) AND LOCK(1099511627775) THEN v = 1": "",
		"DELIVER v OFFSET 0 INTO 4294967295 LEN 8":      "",
		"DELIVER PACKET[0] OFFSET 0 INTO -1 LEN 8":      "INTO -1: a segment is a number from 0 to 4294967295",
		"GET v OFFSET 0 FROM 4294967296 LEN 8":          "FROM 4294967296: a segment is a number from 0 to 4294967295",
		"GET v OFFSET 0 FROM v LEN 8; SET FLAG v":       "",
	} {
		got := messages("PROGRAM p: CONST far = 1 << 40; VAR v; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN " + text + " END; END;")
		if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
