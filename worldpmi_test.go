package weft

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/environ"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/pmi"
)

// space is the key-value space of a job on one host.
type space struct {
	mu sync.Mutex
	of map[string]string
}

func (s *space) Put(key, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = value
	return nil
}

func (s *space) Get(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.of[key]
	return v, ok
}

func (s *space) Barrier(context.Context) error { return nil }
func (s *space) Abort(int, int, string)        {}

// rank opens one rank of a job by a PMI server, as Open does.
func rank(ctx context.Context, s *pmi.Server, rank, size int, cfg Config) (*Process, error) {
	child, err := s.Connect(rank)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Dup(int(child.Fd())) // launched takes over the file descriptor
	if err := errors.Join(err, child.Close()); err != nil {
		return nil, err
	}
	l := launched{name: Name{Index: uint32(rank)}, place: Place{Rank: rank, Size: size}, pmi: environ.PMI{FD: fd}}
	n, err := l.open(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	p, err := n.attachAs(ctx, l.name, l.life)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	p.closeNIC, p.place = true, l.place
	return p, nil
}

// openRanks opens all ranks of a job concurrently.
func openRanks(t *testing.T, cfgs []Config) (procs []*Process, errs []error, values map[string]string) {
	t.Helper()
	all := &space{of: make(map[string]string)}
	ranks := make([]int, len(cfgs))
	for i := range ranks {
		ranks[i] = i
	}
	s, err := pmi.NewServer(pmi.ServerConfig{Name: "kvs_7_Host", Size: len(ranks), Ranks: ranks}, all)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	procs, errs = make([]*Process, len(ranks)), make([]error, len(ranks))
	var wait sync.WaitGroup
	for i := range ranks {
		wait.Go(func() {
			if procs[i], errs[i] = rank(ctx, s, i, len(ranks), cfgs[i]); errs[i] != nil {
				cancel() // a launcher would also end the others
			}
		})
	}
	wait.Wait()
	t.Cleanup(func() {
		for _, p := range procs {
			if p != nil {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	return procs, errs, all.of
}

func TestRanksOfAPMIServerAgreeOnAKeyAndFindEachOther(t *testing.T) {
	t.Setenv(fabric.FileVariable, "")
	procs, errs, values := openRanks(t, make([]Config, 4))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(values[jobKey], "weft") || values[jobKey] == ownKey {
		t.Errorf("the job key is %.8q…; expected a fabric key", values[jobKey])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	for i, p := range procs {
		wait.Go(func() {
			g, err := p.World(ctx)
			if err != nil {
				t.Errorf("rank %d: %v", i, err)
				return
			}
			if err := g.Barrier(ctx); err != nil || g.Rank() != i {
				t.Errorf("rank %d is rank %d, %v", i, g.Rank(), err)
			}
		})
	}
	wait.Wait()
	if want := environ.Application("kvs_7_Host", ""); procs[0].Name().App != want {
		t.Errorf("the application is %s; expected %s", procs[0].Name().App, want)
	}

	// A NIC with the user's fabric key does not belong to the job.
	other, err := OpenNIC(ctx, Config{Nodes: []Node{{Addr: procs[0].NIC().Addr()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if nodes, err := other.Nodes(); err != nil || len(nodes) != 1 || nodes[0].Up {
		t.Errorf("a NIC outside of the job knows %+v, %v; expected one node that is not up", nodes, err)
	}
}

func TestRanksKeepAFabricKeyThatTheyHave(t *testing.T) {
	procs, errs, values := openRanks(t, []Config{{Plain: true}, {Plain: true}})
	if err := errors.Join(errs...); err != nil || values[jobKey] != ownKey {
		t.Fatalf("job key %q, %v", values[jobKey], err)
	}
	if _, err := procs[1].WaitName(t.Context(), procs[0].Name()); err != nil {
		t.Error(err)
	}
}

func TestRanksThatDisagreeOnTheKeySayWhatDiffers(t *testing.T) {
	t.Setenv(fabric.FileVariable, "")
	_, errs, _ := openRanks(t, []Config{{Plain: true}, {}})
	const want = "rank 0 and rank 1 differ: all ranks or none must have Config.Plain, Config.Fabric or $WEFT_FABRIC_FILE"
	if errs[1] == nil || !strings.Contains(errs[1].Error(), want) {
		t.Errorf("rank 1: %v; expected %s", errs[1], want)
	}
}

func TestEveryRankReachesEveryOtherOverItsPeers(t *testing.T) {
	for _, size := range []int{1, 2, 3, allPeers, allPeers + 1, 1000, 4096} {
		seen, queue := map[int]bool{0: true}, []int{0}
		for len(queue) > 0 {
			for _, r := range peersOf(queue[0], size) {
				if r < 0 || r >= size || r == queue[0] {
					t.Fatalf("rank %d of %d has the peer %d", queue[0], size, r)
				}
				if !seen[r] {
					seen[r] = true
					queue = append(queue, r)
				}
			}
			queue = queue[1:]
		}
		if len(seen) != size {
			t.Errorf("rank 0 of %d reaches %d ranks", size, len(seen))
		}
		if n := len(peersOf(0, size)); size <= allPeers && n != size-1 || size > allPeers && n > 12 {
			t.Errorf("a rank of %d has %d peers", size, n)
		}
	}
}

func TestTheLauncherOfASingleRankIsNotAskedForPeers(t *testing.T) {
	l := launched{name: Name{App: "job"}, place: Place{Size: 1}, pmi: environ.PMI{FD: 1 << 20}}
	n, err := l.open(t.Context(), &Config{Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	l.place.Size = 2
	if _, err := l.open(t.Context(), &Config{Plain: true}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("PMI server at descriptor ", 1<<20)) {
		t.Errorf("a rank of two without a server: %v", err)
	}
}
