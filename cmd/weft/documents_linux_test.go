package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/vni"
)

// Every command line in README and the documents has a command and flags that exist.
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
				// such a line is output of a command
				if command, _, _ := strings.Cut(m[1], " "); strings.HasSuffix(command, ":") {
					continue
				}
				found++
				checkLine(t, filepath.Base(name), m[1])
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d command lines; the search must be broken", found)
	}
}

// checkLine checks a line that may have [optional] flags, alternatives and a comment. It ignores
// words after --, which belong to another program.
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

// The documents describe the JSON of the tools and each counter as they are.
func TestKeysAndCountersAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/nic.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []any{ctl.Node{}, ctl.Check{}, ctl.Name{}, ctl.Member{}, ctl.Process{}, ctl.Thrown{}, ctl.SegmentInfo{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("docs/nic.md does not name %q, the key of %T.%s", key, value, f.Name)
			}
		}
	}
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:rel|drop|nic|link)_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(vni.Names(), m[1]) {
				t.Errorf("%s: there is no counter %s", filepath.Base(name), m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d counters; the search must be broken", found)
	}
}
