package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// heatOf builds the example heat, and returns it with its arguments and the output of one rank.
func heatOf(t *testing.T, steps string) (args []string, want string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "heat")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/heat").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args = []string{program, "-side", "200", "-steps", steps}
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil || !strings.HasPrefix(string(out), "step "+steps+": ") {
		t.Fatalf("one rank prints %q, %v", out, err)
	}
	return args, string(out)
}

func TestAParallelProgramPrintsTheSameBitsOnAnyNumberOfRanks(t *testing.T) {
	args, want := heatOf(t, "1000")
	ranks := []string{"1", "3", "5"}
	if testing.Short() { // the programs are not raced, and they share a launcher
		ranks = ranks[1:2]
	}
	for _, n := range ranks {
		status, out, stderr := weftRun(t, append([]string{"-n", n, "--oversubscribe", "--"}, args...)...).end(t)
		if status != 0 || out != want || stderr != "" {
			t.Errorf("-n %s: status %d, %q, %s; expected %q", n, status, out, stderr, want)
		}
	}
}

// die runs the program. In the rank $3 it kills the program once, after its second checkpoint in
// the directory $2.
const die = `
program=$1 dir=$2 rank=$3
shift 3
test $WEFT_RANK = $rank -a ! -e $dir.killed || exec $program "$@" -checkpoint $dir
$program "$@" -checkpoint $dir & pid=$!
until test -e $dir/b.manifest; do sleep 0.02; done
touch $dir.killed
kill -KILL $pid || exit
wait $pid`

func TestAParallelProgramContinuesWithTheSameBitsAfterADeath(t *testing.T) {
	args, want := heatOf(t, "3000")
	for _, c := range []struct{ onDeath, rank, note string }{
		{"shrink", "1", "the others go on"},
		{"shrink", "0", "the others go on"},
		{"restart=1", "2", "restart 1 of 1"},
	} {
		dir := filepath.Join(t.TempDir(), "plate")
		command := append([]string{"-n", "3", "--oversubscribe", "--on-death", c.onDeath, "--",
			"sh", "-c", die, "sh", args[0], dir, c.rank}, args[1:]...)
		status, out, stderr := weftRun(t, command...).end(t)
		if status != 0 || out != want || !strings.Contains(stderr, c.note) {
			t.Errorf("--on-death %s, rank %s: status %d, %q, %s; expected %q and %q",
				c.onDeath, c.rank, status, out, stderr, want, c.note)
		}
	}
}
