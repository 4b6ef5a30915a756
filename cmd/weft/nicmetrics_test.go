package main

import (
	"strings"
	"testing"
)

// Without a value, the flag of an unset variable would switch the metrics off.
func TestMistakesInTheFlagsOfMetricsAreFoundBeforeTheNICStarts(t *testing.T) {
	for want, args := range map[string][]string{
		"expected off, unix": {"--metrics", ""},
		"HOST:PORT":          {"--metrics", "7702"},
		"other hosts can reach [::]:7702; expected a file with a token": {"--metrics", ":7702"},
		"metrics_token_file: token: open /no/such":                      {"--metrics", ":7702", "--metrics-token-file", "/no/such"},
	} {
		status, _, said := weft(append([]string{"nic", "--plain", "--check", "--state-dir", t.TempDir()}, args...)...)
		if status != 2 || !strings.Contains(said, want) {
			t.Errorf("weft nic %v: status %d, %s; want 2 and %q", args, status, said, want)
		}
	}
}
