package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/stuck"
)

// An empty id would begin every id, and so end the only running job.
func TestAnIDOfAJobWithoutADigitNamesNoJob(t *testing.T) {
	only := []ctl.JobInfo{{ID: "job-1a2b3c4d", Ranks: 1, Size: 1}}
	// the command line is refused before any daemon is asked
	socket := filepath.Join(t.TempDir(), "nic.sock")
	for _, id := range []string{"", "job-"} {
		if parts, err := findJob(only, id); err == nil {
			t.Errorf("%q names the job %s", id, parts[0].ID)
		}
		for _, command := range []string{"kill", "show", "stuck"} {
			status, _, errs := weft("job", command, "--socket", socket, id)
			if status != exitUsage || !strings.Contains(errs, "hexadecimal digit") {
				t.Errorf("weft job %s %q: status %d, %s", command, id, status, errs)
			}
		}
	}
	for _, id := range []string{"1", "job-1", "1a2b3c4d", "job-1a2b3c4d"} {
		if parts, err := findJob(only, id); err != nil || len(parts) != 1 {
			t.Errorf("%q names %v, %v", id, parts, err)
		}
	}
}

func TestAHostThatRefusesIsNotTakenForOneThatIsSilent(t *testing.T) {
	refuses, silent := untold{"h1", "NIC 7 may not look", true}, untold{"h2", "no answer within 5s", false}
	for _, c := range []struct {
		all     []untold
		printed string
		err     string
	}{
		{[]untold{refuses}, "the NIC h1 refuses: NIC 7 may not look\n", "1 NIC refused to answer; their parts of jobs are not listed"},
		{[]untold{silent}, "no answer from the NIC h2: no answer within 5s\n", "1 NIC did not answer; their parts of jobs are not listed"},
		{[]untold{refuses, silent, silent}, "", "2 NICs did not answer, 1 NIC refused to answer; their parts of jobs are not listed"},
	} {
		var out bytes.Buffer
		err := noAnswer(&out, c.all)
		if err == nil || err.Error() != c.err || c.printed != "" && out.String() != c.printed {
			t.Errorf("%v: %v, and %q is printed", c.all, err, out.String())
		}
	}
	if err := noAnswer(&bytes.Buffer{}, nil); err != nil {
		t.Errorf("all hosts have told: %v", err)
	}
}

// The ranks of a host that refuses are not known. The report must not say that they are attached
// to no daemon.
func TestRanksThatNoHostListsMayBeOnAHostThatRefuses(t *testing.T) {
	j := stuck.Job{ID: "job-1a2b3c4d", Size: 4, Hosts: []stuck.Host{{Name: "h2", Ranks: []int{2, 3}}}}
	j.Untold = untoldRanks(&j, []untold{{"h1", "NIC 7 may not look", true}})
	if len(j.Untold) != 1 || !j.Untold[0].Refused || j.Untold[0].Node != "h1" || len(j.Untold[0].Ranks) != 2 || j.Untold[0].Ranks[1] != 1 {
		t.Fatalf("untold: %+v", j.Untold)
	}
	report := stuck.Analyze(stuck.Facts{Job: j.ID, Size: 4, Hosts: 2, Silent: j.Untold,
		Rows: []stuck.Row{{RankInfo: ctl.RankInfo{Rank: 2}}, {RankInfo: ctl.RankInfo{Rank: 3}}}})
	var out bytes.Buffer
	if err := printStuck(&out, &report); err != nil {
		t.Fatal(err)
	}
	if want := "cause: ranks 0, 1 are not known: host h1 refuses (role observe): NIC 7 may not look\n"; !strings.Contains(out.String(), want) {
		t.Errorf("it prints\n%s\nexpected %s", out.String(), want)
	}
	j.Hosts[0].Ranks = []int{0, 1, 2, 3}
	if got := untoldRanks(&j, []untold{{"h1", "NIC 7 may not look", true}}); got != nil {
		t.Errorf("all ranks are listed, and %+v should be elsewhere", got)
	}
}

func TestANameThatNoMachineCanHaveIsAWrongCommandLine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock") // no daemon listens there
	for _, args := range [][]string{{"bad name", "--nodes", "h1"}, {"", "--nodes", "h1"}, {"lab", "--nodes", "h1,h1"}, {strings.Repeat("x", 65), "--nodes", "h1"}} {
		status, _, errs := weft(append([]string{"machine", "create", "--socket", socket}, args...)...)
		if status != exitUsage || !strings.Contains(errs, "expected") {
			t.Errorf("weft machine create %q: status %d, %s", args, status, errs)
		}
	}
}
