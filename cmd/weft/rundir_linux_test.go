package main

import (
	"os"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/launch"
)

func TestAPresentDirectoryThatCannotBeFoundFailsWeftRunAndNotItsCommandLine(t *testing.T) {
	gone := t.TempDir()
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	status, _, errs := weft("run", "--", "/bin/true")
	if status != launch.StatusFailed || !strings.HasPrefix(errs, "weft run: the current directory: ") || !strings.Contains(errs, "--cwd") {
		t.Errorf("status %d: %s", status, errs)
	}
}
