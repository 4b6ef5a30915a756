package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// compilePi compiles the MPI program of package pmi with MPICH's compiler.
func compilePi(t *testing.T) (program string) {
	t.Helper()
	cc, err := exec.LookPath("mpicc.mpich")
	if err != nil {
		t.Skipf("no compiler of MPICH (package mpich): %v", err)
	}
	program = filepath.Join(t.TempDir(), "pi")
	if out, err := exec.Command(cc, "-O1", "-o", program, "../../internal/pmi/testdata/pi.c", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// piOutput returns the output of that program.
func piOutput(ranks int) string {
	return fmt.Sprintf("%d ranks: pi is 3.141593, off by less than 1e-6: yes; the ring adds up to %d\n", ranks, ranks*(ranks-1)/2)
}

func TestAnMPIProgramOfMPICHRuns(t *testing.T) {
	program := compilePi(t)
	for _, ranks := range []int{1, 4} {
		status, out, stderr := weftRun(t, "-n", fmt.Sprint(ranks), "--oversubscribe", "--", program).end(t)
		if want := piOutput(ranks); status != 0 || out != want || stderr != "" {
			t.Errorf("status %d, %q, %s; expected %q", status, out, stderr, want)
		}
	}
}

func TestAnMPIProgramOfMPICHRunsOnTwoHosts(t *testing.T) {
	program := compilePi(t)
	r := startHosts(t, 2).run(t, "exec "+program, "-n", "4")
	line, err := r.out.ReadString('\n')
	if err != nil || line != piOutput(4) {
		t.Errorf("%q, %v; expected %q", line, err, piOutput(4))
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("%v; %s", err, r.stderr.String())
	}
}

func TestAnAbortOfMPIEndsTheJobWithItsStatus(t *testing.T) {
	status, _, stderr := weftRun(t, "-n", "3", "--oversubscribe", "--", compilePi(t), "abort").end(t)
	if status != 9 {
		t.Errorf("status %d, %s; expected 9", status, stderr)
	}
}

// The ranks of a job are processes of its daemons. Without the daemon's socket, they embed NICs,
// which find each other through the PMI server of weft run.
func TestRanksFormTheWorldByTheDaemonAndByNICsOfTheirOwn(t *testing.T) {
	program := filepath.Join(t.TempDir(), "world")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/world").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4: the ranks add up to 6", rank))
	}
	for _, command := range []string{`exec "$0"`, `unset WEFT_SOCKET; exec "$0"`} {
		status, out, stderr := weftRun(t, "-n", "4", "--oversubscribe", "--", "sh", "-c", command, program).end(t)
		if got := sortedLines(out); status != 0 || !slices.Equal(got, want) {
			t.Errorf("%s: status %d, %q, %s; expected %q", command, status, got, stderr, want)
		}
	}
}
