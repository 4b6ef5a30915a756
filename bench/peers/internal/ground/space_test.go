package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain makes this binary one that InOwnSpace can run again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == InsideWord {
		Enter()
		if err := leaveAndSweep(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// leaveAndSweep leaves a process behind in another session, and memory, as a killed launcher
// does. It checks that both are gone after a sweep.
func leaveAndSweep() error {
	if err := exec.Command("sh", "-c", "setsid sleep 1000 & echo left > "+sharedFiles+"/left").Run(); err != nil {
		return err
	}
	if self, _ := os.Readlink("/proc/self"); self != "1" {
		// this container forbids a private /proc, so nothing can be counted
		return nil
	}
	if n := processes(); n < 2 {
		return fmt.Errorf("%d processes before the sweep: nothing was left behind", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	Sweep(ctx)
	if n := processes(); n != 1 {
		return fmt.Errorf("%d processes after the sweep, want this one alone", n)
	}
	if files, _ := filepath.Glob(sharedFiles + "/*"); ownFiles && len(files) > 0 {
		return fmt.Errorf("shared memory after the sweep: %s", files)
	}
	return nil
}

// processes counts the processes in /proc.
func processes() int {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return len(found)
}

func TestASpaceIsSweptAndItsStatusTold(t *testing.T) {
	before, _ := os.ReadDir(sharedFiles)
	status, err := InOwnSpace(nil, 0)
	if errors.Is(err, ErrNoSpace) {
		t.Skip(err)
	}
	if err != nil || status != 0 {
		t.Errorf("status %d, error %v", status, err)
	}
	after, _ := os.ReadDir(sharedFiles)
	for _, f := range after {
		if strings.Contains(f.Name(), "left") && len(after) > len(before) {
			t.Errorf("%s/%s is there outside", sharedFiles, f.Name())
		}
	}
}
