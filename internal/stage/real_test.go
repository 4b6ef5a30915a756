//go:build unix

package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// longScript returns a script that is long, with much text after its end, and can be run.
func longScript() []byte {
	return append([]byte("#!/bin/sh\necho staged\nexit 0\n"), bytes.Repeat([]byte("# weft\n"), 500_000)...)
}

// TestKeepersRunAProgramThatOnlyTheLauncherHas stages over UDP, and each keeper has its own
// cache, as on hosts that share nothing.
func TestKeepersRunAProgramThatOnlyTheLauncherHas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := longScript()
	m := manifestOf(t, script, "prog")
	plan := throughJSON(t, NewPlan(weft.Name{App: "job-1a2b3c4d.run"}, "job-1a2b3c4d.run", 3, m))
	var nodes []weft.Node
	open := func(host int) *weft.Process {
		p, err := weft.Open(ctx, weft.Config{Name: plan.Tree.Name(host), Link: weft.UDP("127.0.0.1:0"), Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		nodes = append(nodes, weft.Node{ID: p.NIC().ID(), Addr: p.NIC().Addr()})
		return p
	}
	launcher := open(Launcher)
	served, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan Stats, 1)
	go func() {
		s, err := plan.Serve(served, launcher, bytes.NewReader(script))
		if err != nil {
			t.Error(err)
		}
		sent <- s
	}()
	keepers := []*weft.Process{open(0), open(1), open(2)}
	dirs := []string{cacheDir(t), cacheDir(t), cacheDir(t)}
	for _, want := range []uint64{uint64(len(script)), 0} {
		staged := make([]*Staged, len(keepers))
		var wg sync.WaitGroup
		for h, p := range keepers {
			wg.Go(func() {
				var err error
				if staged[h], err = plan.Bring(ctx, p, "job-1a2b3c4d", h, dirs[h]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for h, s := range staged {
			runAndRemove(t, h, s, want)
		}
	}
	stop()
	if s := <-sent; s.ServedBytes < uint64(len(script)) || s.ServedBytes > 2*uint64(len(script)) {
		t.Errorf("the launcher sent %d bytes of a file of %d; expected it once or twice", s.ServedBytes, len(script))
	}
}

func throughJSON(t *testing.T, p *Plan) *Plan {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadPlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// runAndRemove runs the program that a host has fetched by a number of bytes, and removes it.
func runAndRemove(t *testing.T, host int, s *Staged, want uint64) {
	t.Helper()
	if out, err := exec.Command(s.Path).CombinedOutput(); string(out) != "staged\n" {
		t.Errorf("host %d: the program says %q, %v", host, out, err)
	}
	if got := s.Stats().FetchedBytes; got != want {
		t.Errorf("host %d fetched %d bytes; expected %d", host, got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("host %d: the program is still there: %v", host, err)
	}
}

func TestPlansThatNoLauncherSendsAreRefused(t *testing.T) {
	for what, spoil := range map[string]func(*Plan) []byte{
		"a plan of":             func(*Plan) []byte { return make([]byte, limits.StagedPlanBytes+1) },
		"unexpected end":        func(*Plan) []byte { return []byte("{") },
		"there is none":         func(p *Plan) []byte { p.Manifest = nil; return nil },
		"application":           func(p *Plan) []byte { p.Tree.App = "A B"; return nil },
		"names no launcher":     func(p *Plan) []byte { p.Tree.Root = weft.AnyProcess; return nil },
		"0 hosts in a tree":     func(p *Plan) []byte { p.Tree.Hosts = 0; return nil },
		"1000000 hosts":         func(p *Plan) []byte { p.Tree.Hosts = 1_000_000; return nil },
		"with 0 children each":  func(p *Plan) []byte { p.Tree.Fan = 0; return nil },
		"with -1 children each": func(p *Plan) []byte { p.Tree.Fan = -1; return nil },
		"mode 0":                func(p *Plan) []byte { p.Manifest.Mode = 0; return nil },
	} {
		p := NewPlan(weft.Name{App: "job.run"}, "job.run", 2, manifestOf(t, []byte("x"), "prog"))
		text := spoil(p)
		if text == nil {
			var err error
			if text, err = json.Marshal(p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadPlan(text); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), what) {
			t.Errorf("ReadPlan says %v; expected ErrManifest with %q", err, what)
		}
	}
}
