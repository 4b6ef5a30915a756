package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEachCommandHasAManualPageWithTheTextOfItsHelp(t *testing.T) {
	dir := t.TempDir()
	if status, out, stderr := weft("help", "--man", dir); status != 0 || out+stderr != "" {
		t.Fatalf("weft help --man: %d %q %q", status, out, stderr)
	}
	pages := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		b, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		pages++
		page := strings.NewReplacer(`\-`, "-", `\e`, `\`, `\&`, "").Replace(string(b))
		for _, want := range append([]string{" - " + c.Short, c.UseLine()}, strings.Split(strings.Trim(c.Long, "\n"), "\n\n")...) {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", c.CommandPath(), want)
			}
		}
		for line := range strings.Lines(string(b)) {
			if line == "\n" {
				t.Errorf("%s: the page has an empty line, which troff warns of", c.CommandPath())
			}
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(newRoot(new(bool)))
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != pages || pages < 50 {
		t.Errorf("%d pages of %d commands, %v", len(files), pages, err)
	}
	t.Run("groff", func(t *testing.T) {
		if _, err := exec.LookPath("groff"); err != nil {
			t.Skipf("the pages are not formatted: %v", err)
		}
		for _, name := range []string{"weft.1", "weft-nic.1", "weft-nodes-add.1"} {
			if out, err := exec.Command("groff", "-man", "-ww", "-z", "-K", "utf8", filepath.Join(dir, name)).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v %s", name, err, out)
			}
		}
	})
}

func TestTextsThatTroffWouldUnderstandAreEscaped(t *testing.T) {
	got := paragraphs("a-b\n.TH\n'x \\n\n\n  indented\n\nend")
	want := "a\\-b\n\\&.TH\n\\&'x \\en\n.PP\n.nf\n  indented\n.fi\n.PP\nend\n"
	if got != want {
		t.Errorf("%q; expected %q", got, want)
	}
}

func TestCompletionScriptsAskWeftForItsCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if status, out, stderr := weft("help", "--completion", dir); status != 0 || out+stderr != "" {
		t.Fatalf("weft help --completion: %d %q %q", status, out, stderr)
	}
	for name, shell := range map[string]string{"weft.bash": "bash", "_weft": "zsh", "weft.fish": "fish"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(b, []byte("__complete")) {
			t.Errorf("%s: %v, %d bytes", name, err, len(b))
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not parsed: %v", name, err)
		} else if out, err := exec.Command(shell, "-n", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Errorf("%s -n %s: %v %s", shell, name, err, out)
		}
	}
	if _, out, _ := weft("__complete", "nic", "relo"); !strings.Contains(out, "reload\t") {
		t.Errorf("weft nic relo is completed to %q", out)
	}
}
