package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/fabric"
)

// hydra runs a command under MPICH's launcher. The ranks have no fabric key except that of their
// job.
func hydra(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	launcher, err := exec.LookPath("mpiexec.hydra")
	if err != nil {
		t.Skipf("no launcher of MPICH (package mpich): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	x := exec.CommandContext(ctx, launcher, args...)
	x.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, fabric.FileVariable+"=") || strings.HasPrefix(v, "WEFT_SOCKET=")
	})
	out, err := x.CombinedOutput()
	return string(out), err
}

// buildWorld compiles the program of all ranks.
func buildWorld(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "world")
	if out, err := exec.Command("go", "build", "-o", program, "./world").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func TestRanksUnderMPICHsLauncherFormTheWorld(t *testing.T) {
	program := buildWorld(t)
	for what, args := range map[string][]string{
		"by descriptor":      {"-n", "4"},
		"by port":            {"-pmi-port", "-n", "4"},
		"as if on two hosts": {"-launcher", "fork", "-hosts", "weft-a,weft-b", "-ppn", "2", "-n", "4"},
	} {
		t.Run(what, func(t *testing.T) {
			out, err := hydra(t, append(args, program)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(lines)
			var want []string
			for _, rank := range "0123" {
				want = append(want, "rank "+string(rank)+" of 4: the ranks add up to 6")
			}
			if err != nil || !slices.Equal(lines, want) {
				t.Errorf("%v; the ranks print\n%s", err, out)
			}
		})
	}
}

func TestARankThatCannotOpenEndsTheJobOfMPICHsLauncher(t *testing.T) {
	const script = `[ "$PMI_RANK" = 2 ] && export ` + fabric.FileVariable + `=/no/such/file; exec "$0"`
	out, err := hydra(t, "-n", "4", "sh", "-c", script, buildWorld(t))
	if err == nil || !strings.Contains(out, "rank 0 and rank 2 differ") {
		t.Errorf("%v; the ranks print\n%s", err, out)
	}
}
