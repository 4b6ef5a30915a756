package main

import (
	"strings"
	"testing"
)

func TestTheDemoEndsWellAndShowsItsTable(t *testing.T) {
	if testing.Short() {
		t.Skip("internal/demo has a shorter one")
	}
	status, stdout, stderr := weft("demo")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "sent again") || !strings.Contains(stdout, "All is well") {
		t.Errorf("status %d, output:\n%s%s", status, stdout, stderr)
	}
}

func TestTheDemoSaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"demo --loss 5":  `invalid argument "5" for "--loss" flag: expected a share such as 5% or 0.05`,
		"demo --seed -1": `invalid argument "-1" for "--seed" flag: `,
		"demo now":       `unknown command "now" for "weft demo"`,
	} {
		status, stdout, stderr := weft(strings.Fields(line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+want) || stdout != "" {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", line, status, stderr, exitUsage, want)
		}
	}
}
