package main

import (
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// fullHost is a daemon that has one job, with as many ranks as a host can have.
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
