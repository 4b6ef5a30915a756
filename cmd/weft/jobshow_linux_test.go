package main

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/stuck"
)

// fullHost starts a daemon that has one job, with as many ranks as a host can have.
func fullHost(t *testing.T, job ctl.JobInfo) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ranks := make([]ctl.RankInfo, limits.RanksPerHost)
	for i := range ranks {
		ranks[i] = ctl.RankInfo{Rank: i, PID: 1000 + i, State: ctl.RankRunning}
	}
	serve := func(c *ctl.Client) {
		defer c.Close()
		for {
			r, err := c.Receive()
			if err != nil {
				return
			}
			if r.Job.ID == "" {
				_ = c.Reply(&ctl.Reply{Job: &ctl.JobReply{Jobs: []ctl.JobInfo{job}}})
				continue
			}
			part, next := job, 0
			part.Processes, next = ctl.Page(ranks, r.From)
			if c.Reply(&ctl.Reply{Job: &ctl.JobReply{Jobs: []ctl.JobInfo{part}}, Next: next}) != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return socket
}

func TestAJobIsShownWithAllRanksOfAFullHost(t *testing.T) {
	job := ctl.JobInfo{ID: "job-1a2b3c4d", Ranks: limits.RanksPerHost, Size: limits.RanksPerHost}
	conn, err := ctl.Dial(t.Context(), fullHost(t, job))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	parts, err := wholeParts(t.Context(), conn, []ctl.JobInfo{job})
	if err != nil || len(parts) != 1 || len(parts[0].Processes) != limits.RanksPerHost {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, r := range parts[0].Processes {
		if r.Rank != i {
			t.Fatalf("process %d is rank %d", i, r.Rank)
		}
	}
}

func TestJobsThatNoHostCanHaveAreNotBelieved(t *testing.T) {
	good := ctl.JobInfo{ID: "job-1a2b3c4d", Ranks: 2, First: 2, Size: 4}
	for _, change := range []func(*ctl.JobInfo){
		func(*ctl.JobInfo) {},
		func(j *ctl.JobInfo) { j.Ranks = math.MaxInt },
		func(j *ctl.JobInfo) { j.Ranks = 0 },
		func(j *ctl.JobInfo) { j.First = math.MaxInt },
		func(j *ctl.JobInfo) { j.First = -1 },
		func(j *ctl.JobInfo) { j.Size = math.MaxInt },
	} {
		job := good
		change(&job)
		believed := job.Ranks == good.Ranks && job.First == good.First && job.Size == good.Size
		conn, err := ctl.Dial(t.Context(), fullHost(t, job))
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := jobsOf(t.Context(), conn, 0)
		if (err == nil) != believed || len(jobs) == 1 != believed {
			t.Errorf("%d ranks from %d of %d: %v, %v", job.Ranks, job.First, job.Size, jobs, err)
		}
		_ = conn.Close()
	}
}

// Another user chooses the path of its program, and another host chooses what it reports.
func TestWhatJobsAreCalledDoesNotReachTheTerminal(t *testing.T) {
	const evil = "\x1b[2J\nroot\tok\r\u009b"
	j := ctl.JobInfo{ID: "job-1a2b3c4d", User: evil, Machine: evil, Program: "/home/m/" + evil, State: evil, Ranks: 1, Size: 1,
		Processes: []ctl.RankInfo{{State: evil, Cause: evil}}}
	var out bytes.Buffer
	if err := printJobs(&out, []ctl.JobInfo{j}, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("a job takes %d lines", n-1)
	}
	if err := showJob(&out, []ctl.JobInfo{j}, nil); err != nil {
		t.Fatal(err)
	}
	r := &running{errs: &out}
	r.say("host h: %s", evil)
	report := stuck.Analyze(stuck.Facts{Job: "job-1a2b3c4d", Size: 2, Hosts: 1,
		Rows: []stuck.Row{{RankInfo: ctl.RankInfo{PID: 7, State: evil}, Node: evil}}, Silent: []stuck.Silent{{Node: evil, Ranks: []int{1}, Why: evil}}})
	if err := printStuck(&out, &report); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.ContainsAny(got, "\x1b\r\u009b") {
		t.Errorf("it prints %q", got)
	}
	if !strings.Contains(out.String(), "/home/m/") {
		t.Errorf("it prints %q; expected the path", out.String())
	}
}
