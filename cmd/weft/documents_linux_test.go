package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every command line that README and the documents show has a command and flags that there are.
func TestTheCommandsInDocumentsExist(t *testing.T) {
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")
	lines := regexp.MustCompile(`(?m)^(?:\$ )?weft ([a-z-].*)$`)
	found := 0
	for _, name := range append(names, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			for _, m := range lines.FindAllStringSubmatch(block[1], -1) {
				found++
				checkLine(t, filepath.Base(name), m[1])
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d command lines; the search must be broken", found)
	}
}

// checkLine checks a line that may have [optional] flags, alternatives and a comment. What stands behind -- is another program's.
func checkLine(t *testing.T, where, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " -- ")
	words := strings.Fields(strings.NewReplacer("[", " ", "]", " ", "|", " ").Replace(line))
	c, rest, err := newRoot(new(bool)).Find(words)
	unknown := c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-")
	if err != nil || unknown || c.Parent() == nil && words[0] != "--version" {
		t.Errorf("%s: weft %s: no such command: %v", where, line, err)
		return
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	for _, w := range rest {
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && c.Flags().Lookup(name) == nil {
			t.Errorf("%s: weft %s: %s has no flag --%s", where, line, c.CommandPath(), name)
		}
	}
}
