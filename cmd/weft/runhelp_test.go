package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheHelpOfParallelCommandsFitsAScreen(t *testing.T) {
	for _, command := range []string{"run", "machine", "machine create", "machine list", "machine show", "machine set", "machine delete",
		"job", "job list", "job show", "job stuck", "job kill"} {
		status, out, _ := weft(append(strings.Fields(command), "--help")...)
		if status != 0 || !strings.Contains(out, "Usage:") {
			t.Errorf("weft %s --help: status %d, %s", command, status, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > screenColumns {
				t.Errorf("weft %s --help: %d columns, expected at most %d: %s", command, n, screenColumns, line)
			}
		}
	}
}
