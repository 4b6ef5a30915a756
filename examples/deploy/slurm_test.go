package deploy_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cluster holds stand-ins for the programs of a cluster with one node, as far as the script
// needs them. Each writes to a log.
var cluster = map[string]string{
	"scontrol": `echo node1; echo node2`,

	// srun runs its command once, or once for each task, and returns the last status that is not 0.
	"srun": `echo "srun $*" >> "$LOG"
tasks=3
while :; do
	case $1 in
	--ntasks=*) tasks=${1#--ntasks=} ;;
	--*) ;;
	*) break ;;
	esac
	shift
done
status=0 i=0
while [ "$i" -lt "$tasks" ]; do
	SLURM_PROCID=$i SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=$tasks "$@" || status=$?
	i=$((i + 1))
done
exit "$status"`,

	// weft is a daemon that is up a moment after its start.
	"weft": `echo "weft $*" >> "$LOG"
case "$*" in
"nic stop") rm "$WEFT_SOCKET" ;;
stat) [ -e "$WEFT_SOCKET" ] ;;
*) sleep 0.2; : > "$WEFT_SOCKET"; while [ -e "$WEFT_SOCKET" ]; do sleep 0.05; done ;;
esac`,

	"program": `[ -e "$WEFT_SOCKET" ] || echo "no daemon" >> "$LOG"
echo "rank $SLURM_PROCID of $SLURM_STEP_NUM_TASKS: $*" >> "$LOG"
[ "$SLURM_PROCID" != "$FAILS" ] || exit 3`,
}

// submit runs the script as sbatch does, and returns the log and the exit status. One rank of
// its program fails if fails says so.
func submit(t *testing.T, fails string, args ...string) (log []string, status int) {
	t.Helper()
	bin, file := t.TempDir(), filepath.Join(t.TempDir(), "log")
	for name, body := range cluster {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	id := fmt.Sprint(os.Getpid())
	dir := "/tmp/weft-" + id
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	x := exec.CommandContext(t.Context(), "slurm/weft-job.sh", args...)
	x.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "LOG=" + file, "FAILS=" + fails,
		"SLURM_JOB_ID=" + id, "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=node[1-2]"}
	out, err := x.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the script leaves %s (%v); it says %s", dir, err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil && len(args) > 0 {
		t.Fatalf("%v; the script says %s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), x.ProcessState.ExitCode()
}

func TestTheSlurmScriptStartsDaemonsThenRanksAndStopsTheDaemons(t *testing.T) {
	log, status := submit(t, "none", "program", "a b")
	if status != 0 {
		t.Errorf("the script ends with status %d", status)
	}
	at := func(line string) int {
		i := slices.IndexFunc(log, regexp.MustCompile("^"+line+"$").MatchString)
		if i < 0 {
			t.Errorf("nothing like %q happens:\n%s", line, strings.Join(log, "\n"))
		}
		return i
	}
	id := os.Getpid()
	port := 20000 + id%10000*2
	daemon := at(fmt.Sprintf("weft nic --state-dir /tmp/weft-%d --listen 0.0.0.0:%d --gossip-listen 0.0.0.0:%d --seed node1:%d", id, port, port+1, port+1))
	ranks := []int{at("rank 0 of 3: a b"), at("rank 1 of 3: a b"), at("rank 2 of 3: a b")}
	stop := at("weft nic stop")
	if !slices.IsSorted(slices.Concat([]int{daemon}, ranks, []int{stop})) || slices.Contains(log, "no daemon") {
		t.Errorf("the order is wrong:\n%s", strings.Join(log, "\n"))
	}
}

func TestTheSlurmScriptEndsWithTheStatusOfItsRanks(t *testing.T) {
	log, status := submit(t, "1", "program")
	if status != 3 || !slices.Contains(log, "weft nic stop") {
		t.Errorf("status %d; expected 3, and that the daemons are stopped:\n%s", status, strings.Join(log, "\n"))
	}
}

func TestTheSlurmScriptRefusesToRunNothing(t *testing.T) {
	if log, status := submit(t, "none"); status == 0 || log[0] != "" {
		t.Errorf("status %d: %v", status, log)
	}
}

func TestTheSlurmScriptKeepsItsOptionsBeforeItsCommands(t *testing.T) {
	text, err := os.ReadFile("slurm/weft-job.sh")
	if err != nil {
		t.Fatal(err)
	}
	// sbatch reads only up to the first command
	options, commands, _ := strings.Cut(string(text), "\nset -eu\n")
	for _, option := range []string{"--job-name=", "--nodes=", "--ntasks-per-node=", "--time="} {
		if !strings.Contains(options, "\n#SBATCH "+option) {
			t.Errorf("no line #SBATCH %s stands before the first command", option)
		}
	}
	if strings.Contains(commands, "#SBATCH") {
		t.Error("sbatch would not read an option behind the first command")
	}
}
