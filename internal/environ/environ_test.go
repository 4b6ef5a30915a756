package environ

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

var update = flag.Bool("update", false, "write the golden places")

// variables reads lines NAME=VALUE.
func variables(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			m[name] = value
		}
	}
	return m
}

// from is From with the variables of a text.
func from(text string) (Place, error) {
	m := variables(text)
	return From(func(name string) string { return m[name] })
}

func TestEveryLaunchersEnvironmentHasItsPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/*.env")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d environments, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := from(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := vni.MakeName(p.App, uint32(p.Rank)); err != nil && (p.App != "" || p.PMI.None()) {
				t.Error(err)
			}
			text, err = json.MarshalIndent(p, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			got := string(text) + "\n"
			golden := strings.TrimSuffix(file, ".env") + ".json"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || string(want) != got {
				t.Errorf("place %s\nexpected %s (%v)", got, want, err)
			}
		})
	}
}

func TestAProcessWithoutALauncherIsToldWhatIsMissing(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":                  "",
		"a batch script":           "SLURM_JOB_ID=7\nSLURM_PROCID=0\nSLURM_NTASKS=4",
		"a batch step":             "SLURM_JOB_ID=7\nSLURM_PROCID=0\nSLURM_NTASKS=4\nSLURM_STEP_ID=4294967291",
		"an interactive step":      "SLURM_JOB_ID=7\nSLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=1\nSLURM_STEP_ID=4294967290",
		"a daemon's socket":        "WEFT_SOCKET=/run/weft/nic.sock",
		"a pod of a plain job":     "JOB_NAME=solver\nWEFT_SIZE=3",
		"the size without a rank":  "PMI_SIZE=4\nOMPI_COMM_WORLD_SIZE=4",
		"the name without a place": "WEFT_NAME=a\nWEFT_SIZE=2",
	} {
		if p, err := from(text); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %+v, %v; expected ErrNone", what, p, err)
		}
	}
}

func TestMalformedAndContradictoryVariablesAreNamed(t *testing.T) {
	const weft, pmi, slurm = "WEFT_NAME=a\nWEFT_RANK=0\nWEFT_SIZE=2\n", "PMI_RANK=0\nPMI_SIZE=2\n", "SLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=2\nSLURM_JOB_ID=1\nSLURM_STEP_ID=0\n"
	const set = "JOBSET_NAME=s\nJOB_COMPLETION_INDEX=0\nWEFT_SIZE=4\n"
	for _, c := range []struct{ text, want string }{
		{weft + "WEFT_RANK=2", `WEFT_RANK is "2"; expected a rank below WEFT_SIZE, which is 2`},
		{weft + "WEFT_RANK=-1", `WEFT_RANK is "-1"; expected a decimal number from 0 to 4095`},
		{weft + "WEFT_RANK=01", `WEFT_RANK is "01"; expected a decimal number`},
		{weft + "WEFT_SIZE=", `WEFT_SIZE is ""; expected a decimal number from 1 to 4096`},
		{weft + "WEFT_SIZE=4097", `WEFT_SIZE is "4097"; expected`},
		{weft + "WEFT_NAME=", `WEFT_NAME is ""; expected the application of the job`},
		{weft + "WEFT_NAME=Not OK", `WEFT_NAME is "Not OK"; expected`},
		{weft + "WEFT_RESTART=x", `WEFT_RESTART is "x"; expected a decimal number from 0`},
		{weft + "WEFT_INCARNATION=0", `WEFT_INCARNATION is "0"; expected a decimal number from 1`},
		{weft + "WEFT_INCARNATION=-1", `WEFT_INCARNATION is "-1"; expected a decimal number from 1`},
		{weft + "WEFT_JOB_KEY=too short", "WEFT_JOB_KEY has 9 characters; expected at least 16"},
		{pmi + "PMI_RANK=2\nPMI_FD=3", `PMI_RANK is "2"; expected a rank below PMI_SIZE, which is 2`},
		{pmi + "PMI_FD=x", `PMI_FD is "x"; expected a decimal number from 3`},
		{pmi + "PMI_FD=0", `PMI_FD is "0"; expected a decimal number from 3`},
		{pmi + "PMI_FD=3\nPMIX_RANK=1", `PMIX_RANK is "1"; expected 0, as PMI_RANK says`},
		{pmi + "PMI_FD=3\nOMPI_COMM_WORLD_RANK=1", `OMPI_COMM_WORLD_RANK is "1"; expected 0, as PMI_RANK says`},
		{pmi + "PMI_FD=3\nOMPI_COMM_WORLD_SIZE=9", `OMPI_COMM_WORLD_SIZE is "9"; expected 2, as PMI_SIZE says`},
		{"PMI_PORT=h:1\nPMI_ID=x", `PMI_ID is "x"; expected a decimal number from 0`},
		{pmi, `PMIX_NAMESPACE is ""; expected the name of the job; set WEFT_NAME`},
		{"OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nPMIX_RANK=0", `PMIX_RANK is "0"; expected 1, as OMPI_COMM_WORLD_RANK says`},
		{"OMPI_COMM_WORLD_RANK=1\nPMIX_NAMESPACE=a", `OMPI_COMM_WORLD_SIZE is ""; expected a decimal number`},
		{"PMIX_RANK=1\nPMIX_NAMESPACE=a", `WEFT_SIZE is ""; expected a decimal number`},
		{slurm + "SLURM_PROCID=2", `SLURM_PROCID is "2"; expected a rank below SLURM_STEP_NUM_TASKS, which is 2`},
		{slurm + "SLURM_JOB_ID=", `SLURM_JOB_ID is ""; expected a decimal number below 2^32`},
		{slurm + "SLURM_STEP_ID=a", `SLURM_STEP_ID is "a"; expected a decimal number below 2^32`},
		{slurm + "SLURM_RESTART_COUNT=-", `SLURM_RESTART_COUNT is "-"; expected`},
		{"JOB_COMPLETION_INDEX=0\nJOB_NAME=j", `WEFT_SIZE is ""; expected the number of ranks`},
		{"JOB_COMPLETION_INDEX=4\nJOB_NAME=j\nWEFT_SIZE=4", `JOB_COMPLETION_INDEX is "4"; expected a rank below WEFT_SIZE, which is 4`},
		{"JOB_COMPLETION_INDEX=1\nHOSTNAME=j-2\nWEFT_SIZE=4", `JOB_NAME is ""; expected the name of the job; set JOB_NAME or WEFT_NAME`},
		{set + "JOB_GLOBAL_INDEX=1", `WEFT_JOB_SIZE is ""; expected a decimal number from 1`},
		{set + "JOB_GLOBAL_INDEX=1\nWEFT_JOB_SIZE=3", `WEFT_JOB_SIZE is "3"; expected the completions of each job, which divide WEFT_SIZE, 4`},
		{set + "JOB_GLOBAL_INDEX=2\nWEFT_JOB_SIZE=2", `JOB_GLOBAL_INDEX is "2"; expected a decimal number from 0 to 1`},
		{set + "JOB_INDEX=1\nWEFT_JOB_SIZE=2\nJOB_COMPLETION_INDEX=2", `JOB_COMPLETION_INDEX is "2"; expected a decimal number from 0 to 1`},
		{"LWS_WORKER_INDEX=3\nLWS_GROUP_SIZE=3\nLWS_LEADER_ADDRESS=a.b.c", `LWS_WORKER_INDEX is "3"; expected a rank below LWS_GROUP_SIZE, which is 3`},
		{"LWS_WORKER_INDEX=1\nLWS_GROUP_SIZE=3", `LWS_LEADER_ADDRESS is ""; expected POD.SUBDOMAIN.NAMESPACE`},
	} {
		p, err := from(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, ErrNone) {
			t.Errorf("%q: %+v, %v; expected %s", c.text, p, err, c.want)
		}
	}
}

func TestWeftsVariablesComeBeforeThoseOfOthers(t *testing.T) {
	const others = "PMI_FD=3\nPMI_RANK=1\nPMI_SIZE=2\nSLURM_PROCID=1\nSLURM_STEP_ID=0\nSLURM_JOB_ID=1\nSLURM_STEP_NUM_TASKS=2\nJOB_COMPLETION_INDEX=1\n"
	p, err := from(others + "WEFT_NAME=job-1\nWEFT_RANK=5\nWEFT_SIZE=8")
	if want := (Place{Launcher: Weft, App: "job-1", Rank: 5, Size: 8}); err != nil || p != want {
		t.Errorf("place %+v, %v; expected %+v", p, err, want)
	}
}

func TestEachLifeOfAJobHasItsOwnApplication(t *testing.T) {
	for _, text := range []string{
		"SLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=2\nSLURM_JOB_ID=1\nSLURM_STEP_ID=0\nSLURM_RESTART_COUNT=",
		"JOBSET_NAME=a-very-long-name-of-a-jobset\nJOB_COMPLETION_INDEX=0\nWEFT_SIZE=4\nJOBSET_RESTART_ATTEMPT=",
		"LWS_WORKER_INDEX=1\nLWS_GROUP_SIZE=3\nLWS_LEADER_ADDRESS=a.b.c\nWEFT_RESTART=",
		"JOB_COMPLETION_INDEX=0\nJOB_NAME=j\nWEFT_SIZE=4\nWEFT_RESTART=",
		"OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nPMIX_NAMESPACE=n\nWEFT_RESTART=",
	} {
		seen := make(map[string]bool)
		for _, restart := range []string{"", "1", "2", "10", "999999"} {
			p, err := from(text + restart)
			if err != nil || seen[p.App] {
				t.Errorf("%q: application %q again, %v", text+restart, p.App, err)
			}
			if _, err := vni.MakeName(p.App, 0); err != nil {
				t.Error(err)
			}
			seen[p.App] = true
		}
	}
}

func TestApplicationsOfDifferentJobsDiffer(t *testing.T) {
	seen := make(map[string]string)
	for _, job := range []string{"", "a", "A", "a b", "a-b", "a_b", "nic", "program", "ä", strings.Repeat("x", 24),
		strings.Repeat("x", 25), strings.Repeat("x", 26), "kvs_1234_0_host.example.org_x", "-", "\x00", "\xff"} {
		for _, suffix := range []string{"", ".7", ".999999"} {
			app := Application(job, suffix)
			if _, err := vni.MakeName(app, 0); err != nil || !strings.HasSuffix(app, suffix) {
				t.Errorf("%q: %q, %v", job+suffix, app, err)
			}
			if seen[app] != "" {
				t.Errorf("%q and %q have the same application, %s", job+suffix, seen[app], app)
			}
			seen[app] = job + suffix
		}
	}
}

// Any environment gives a place that is valid, or an error.
func FuzzFrom(f *testing.F) {
	files, err := filepath.Glob("testdata/*.env")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := from(text)
		if err != nil {
			if p != (Place{}) {
				t.Errorf("place %+v beside the error %v", p, err)
			}
			return
		}
		if (p.Size < 1 || p.Rank < 0 || p.Rank >= p.Size) && p.PMI.Port == "" {
			t.Errorf("rank %d of %d", p.Rank, p.Size)
		}
		if _, err := vni.MakeName(p.App, uint32(p.Rank)); err != nil && (p.App != "" || p.PMI.None()) {
			t.Error(err)
		}
	})
}
