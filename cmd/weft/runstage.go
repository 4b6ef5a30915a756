package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/stage"
)

// stagedProgram is a program that weft run sends to the hosts of its job.
type stagedProgram struct {
	file     *os.File
	manifest *stage.Manifest
	job      string
	hosts    int

	mu      sync.Mutex
	closed  bool
	serving sync.WaitGroup
	sent    uint64 // bytes that left this process; under mu
}

// stageProgram reads a program to its end. The file stays open until close.
func stageProgram(path, job string, hosts int) (*stagedProgram, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--stage: %w", err)
	}
	s := &stagedProgram{file: f, job: job, hosts: hosts}
	info, err := f.Stat()
	if err == nil {
		s.manifest, err = stage.Describe(f, info.Size(), filepath.Base(path), stage.ModeProgram)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("--stage: %w", err)
	}
	return s, nil
}

// close waits until the service of all keepers has ended. Every attempt of the job has ended.
func (s *stagedProgram) close() {
	s.wait()
	_ = s.file.Close()
}

// wait ends the service and returns how many bytes the launcher has sent.
func (s *stagedProgram) wait() uint64 {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// serve answers the keepers of one attempt until ctx ends.
func (s *stagedProgram) serve(ctx context.Context, p *fabric.Process, restart int) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	stats, err := s.plan(restart).Serve(ctx, p, s.file)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += stats.ServedBytes
	return err
}

// plan returns the plan for the keepers of one attempt: which program they get, and from which
// process.
func (s *stagedProgram) plan(restart int) *stage.Plan {
	return stage.NewPlan(launch.LauncherName(s.job), ctl.KeeperApplication(s.job, restart), s.hosts, s.manifest)
}

// option returns the part of staging that the launcher calls.
func (s *stagedProgram) option() *launch.Stage {
	return &launch.Stage{
		Manifest: func(restart int) []byte {
			b, _ := json.Marshal(s.plan(restart)) // only strings and numbers
			return b
		},
		Serve: s.serve,
	}
}
