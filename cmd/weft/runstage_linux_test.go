package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stagedRun is the outcome of weft run --stage --json.
type stagedRun struct {
	Event  string  `json:"event"`
	Status int     `json:"status"`
	Cause  string  `json:"cause"`
	Staged *uint64 `json:"staged_bytes"`
	output string
	took   time.Duration
}

// unlinked returns a program that has no name on any host. Only a process with this open file
// can read it.
func unlinked(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return f
}

// runUnlinked runs such a program on all hosts.
func (h *realHosts) runUnlinked(t *testing.T, program *os.File, flags ...string) *stagedRun {
	t.Helper()
	names := "localhost"
	for i := 1; i < len(h.sockets); i++ {
		names += fmt.Sprintf(",host-%d", i)
	}
	args := append([]string{"run", "--socket", h.sockets[0], "--nodes", names, "--per-node", "1", "--cwd", "/", "--json"}, flags...)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append(args, "--", "/proc/self/fd/3")...)
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), asWeft+"=1"), []*os.File{program}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	out, _ := cmd.Output() // the summary has the status
	r := &stagedRun{output: string(out), took: time.Since(begin)}
	lines := strings.Split(strings.TrimSpace(r.output), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), r); err != nil || r.Event != "summary" {
		t.Fatalf("no summary: %v in %s%s", err, out, stderr.String())
	}
	return r
}

// longProgram returns a script with many bytes after its end.
func longProgram(bytesLong int, script string) []byte {
	b := []byte("#!/bin/sh\n" + script + "\nexit 0\n")
	return append(b, bytes.Repeat([]byte("# weft\n"), (bytesLong-len(b))/7)...)
}

func TestAStagedProgramRunsOnHostsThatDoNotHaveIt(t *testing.T) {
	h := startHosts(t, 2)
	content := longProgram(3_000_000, `echo "staged on host $WEFT_NODE"`)
	program := unlinked(t, content)
	if r := h.runUnlinked(t, program); r.Status == 0 {
		t.Fatalf("a program that no host has ran without --stage: %s", r.output)
	}
	for _, once := range []uint64{1, 0} {
		r := h.runUnlinked(t, program, "--stage")
		if r.Status != 0 {
			t.Fatalf("status %d, %s", r.Status, r.Cause)
		}
		for host := range 2 {
			if want := fmt.Sprintf("staged on host %d", host); !strings.Contains(r.output, want) {
				t.Errorf("%q is not in %s", want, r.output)
			}
		}
		size := uint64(len(content))
		if r.Staged == nil || *r.Staged < once*size || *r.Staged > 2*once*size {
			t.Errorf("%s: weft run sent another number of bytes than %d to %d", r.output, once*size, 2*once*size)
		}
		h.slotsFree(t, 0, 1)
	}
}

func TestARestartedJobHasItsStagedProgramAgain(t *testing.T) {
	h := startHosts(t, 2)
	program := unlinked(t, longProgram(1_000_000, `test "$WEFT_RESTART" = 1 || exit 3; echo "life $WEFT_RESTART on host $WEFT_NODE"`))
	r := h.runUnlinked(t, program, "--stage", "--on-death", "restart=1")
	if r.Status != 0 || !strings.Contains(r.output, "life 1 on host 0") || !strings.Contains(r.output, "life 1 on host 1") {
		t.Errorf("status %d, %s: %s", r.Status, r.Cause, r.output)
	}
	h.slotsFree(t, 0, 1)
}
