package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fencedBlock = regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```$")
	onHost      = regexp.MustCompile(` on \S+:`)
)

// The programs of the tutorial in docs/parallel.md print what the page shows.
func TestTheTutorialOfParallelProgramsPrintsWhatItShows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs, which the race detector does not look at")
	}
	page, err := os.ReadFile("../../docs/parallel.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var programs, commands int
	for _, block := range fencedBlock.FindAllStringSubmatch(string(page), -1) {
		text := block[1]
		switch {
		case strings.HasPrefix(text, "package main\n"):
			name := []string{"sum", "rod"}[programs]
			programs++
			source := filepath.Join(dir, name, "main.go")
			if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			build := exec.Command("go", "build", "-o", filepath.Join(dir, name+".out"), source)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", name, err, out)
			}
		case strings.HasPrefix(text, "$ "):
			for _, part := range strings.Split(text[2:], "\n$ ") {
				command, want, _ := strings.Cut(strings.TrimSuffix(part, "\n"), "\n")
				commands++
				got := output(t, dir, strings.Fields(command))
				if !slices.Equal(sortedLines(got), sortedLines(want)) {
					t.Errorf("%s prints\n%s; the page shows\n%s", command, got, want)
				}
			}
		}
	}
	if programs != 2 || commands < 8 {
		t.Errorf("found %d programs and %d commands; the search must be broken", programs, commands)
	}
}

// output runs a command of the page in a directory, and returns all its output.
func output(t *testing.T, dir string, command []string) string {
	t.Helper()
	if command[0] == "go" {
		return "" // built already, without a module
	}
	if command[0] == "weft" {
		r := weftRun(t, command[2:]...)
		r.Dir = dir
		_, out, stderr := r.end(t)
		return strings.TrimSuffix(onHost.ReplaceAllString(out+stderr, " on HOST:"), "\n")
	}
	x := exec.Command(command[0], command[1:]...)
	x.Dir = dir
	out, err := x.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}
