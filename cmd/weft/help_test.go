package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pflag pads by bytes, and … has three.
func TestUsagesOfFlagsBeginInOneColumn(t *testing.T) {
	var words []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bool("json", false, "USAGE of json, …")
	wordsFlag(flags, &words, "only", "NAME,…", []string{"a", "b"}, "USAGE of only")
	flags.String("file", "", "USAGE of a `FILE…`")
	want := -1
	for line := range strings.Lines(flagUsages(flags, helpColumns)) {
		before, _, found := strings.Cut(line, "USAGE")
		at := utf8.RuneCountInString(before)
		if want < 0 {
			want = at
		}
		if !found || at != want {
			t.Errorf("the usage begins in column %d; expected column %d: %s", at, want, line)
		}
	}
	if help := flagUsages(flags, helpColumns); !strings.Contains(help, "NAME,… ") || !strings.Contains(help, "FILE… ") || !strings.Contains(help, "json, …") {
		t.Errorf("the help lacks an ellipsis:\n%s", help)
	}
}

func TestHelpOnFlagsIsWrapped(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		_, flags, _ := strings.Cut(c.UsageString(), "\nFlags:\n")
		for line := range strings.Lines(flags) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpColumns {
				t.Errorf("%s: %d columns, expected at most %d: %s", c.CommandPath(), n, helpColumns, line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(new(bool)))
}
