package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/sim"
)

// memory is a store in memory.
type memory struct {
	content map[string][]byte
	drafts  int   // open
	full    error // of Draft
}

type held struct{ *bytes.Reader }

func (held) Close() error { return nil }

func (s *memory) Have(m *Manifest) (Content, error) {
	b, ok := s.content[m.SHA256]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return held{bytes.NewReader(b)}, nil
}

func (s *memory) Draft(m *Manifest) (Draft, error) {
	if s.full != nil {
		return nil, s.full
	}
	s.drafts++
	return &memoryDraft{s: s, m: m, b: make([]byte, m.SizeBytes)}, nil
}

type memoryDraft struct {
	s *memory
	m *Manifest
	b []byte
}

func (d *memoryDraft) ReadAt(b []byte, at int64) (int, error)  { return copy(b, d.b[at:]), nil }
func (d *memoryDraft) WriteAt(b []byte, at int64) (int, error) { return copy(d.b[at:], b), nil }

func (d *memoryDraft) Commit() (Content, error) {
	r := bytes.NewReader(d.b)
	if err := d.m.whole(r); err != nil {
		return nil, err
	}
	if d.s.content == nil {
		d.s.content = map[string][]byte{}
	}
	d.s.content[d.m.SHA256] = d.b
	return held{r}, nil
}

func (d *memoryDraft) Close() error {
	d.s.drafts--
	return nil
}

// tree is a launcher with its keepers, each on its own host, in a simulation.
type tree struct {
	*sim.Fabric
	t       *testing.T
	program []byte
	m       *Manifest
	Tree
	stores []*memory
	nodes  []*Node // of the keepers that have the file
	ends   []error // of the keepers that do not have it
	took   []time.Duration
	root   *Node
	procs  []*sim.Process // 0: the launcher
}

// newTree makes a tree that stages a file of a given size from host 0 to the others when the
// fabric runs.
func newTree(t *testing.T, cfg sim.Config, size int, stores []*memory) *tree {
	t.Helper()
	program := make([]byte, size)
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range program {
		program[i] = byte(rng.Uint32())
	}
	m, err := Describe(bytes.NewReader(program), int64(size), "prog", ModeProgram)
	if err != nil {
		t.Fatal(err)
	}
	hosts := cfg.NICs - 1
	x := &tree{
		Fabric: sim.New(cfg), t: t, program: program, m: m, Tree: NewTree(weft.Name{App: "job.run"}, "job.1.run", hosts, m), stores: stores,
		nodes: make([]*Node, hosts), ends: make([]error, hosts), took: make([]time.Duration, hosts),
	}
	if x.stores == nil {
		for range hosts {
			x.stores = append(x.stores, &memory{})
		}
	}
	x.launcher()
	for h := range hosts {
		x.keeper(h)
	}
	return x
}

func (x *tree) config(p *sim.Process, host int) Config {
	return Config{Process: p.Weft(), Manifest: x.m, Tree: x.Tree, Host: host}
}

func (x *tree) launcher() {
	x.procs = append(x.procs, x.Serve(0, "job.run/0", func(p *sim.Process) (err error) {
		if x.root, err = Serve(x.config(p, Launcher), bytes.NewReader(x.program)); err != nil {
			return err
		}
		return p.Runtime().Sleep(context.Background(), time.Hour)
	}))
}

// keeper fetches the file, and then stays until all others have done so.
func (x *tree) keeper(h int) {
	x.procs = append(x.procs, x.Process(h+1, x.Tree.Name(h).String(), func(p *sim.Process) error {
		for i := range x.Hosts + 1 { // keepers are attached before a job starts
			if _, err := p.WaitName(context.Background(), x.Tree.Name(i-1)); err != nil {
				return err
			}
		}
		began := p.Runtime().Now()
		x.nodes[h], x.ends[h] = Fetch(context.Background(), x.config(p, h), x.stores[h])
		x.took[h] = p.Runtime().Now().Sub(began)
		p.Runtime().Wake()
		err := p.Runtime().Sleep(context.Background(), time.Minute)
		if x.nodes[h] != nil {
			err = errors.Join(err, x.nodes[h].Close())
		}
		return err
	}))
}

func (x *tree) run() {
	x.t.Helper()
	if err := x.Run(time.Hour); err != nil {
		x.t.Fatal(err)
	}
}

// complete fails the test unless a host's store has the file, and no draft is left.
func (x *tree) complete(hosts ...int) {
	x.t.Helper()
	for _, h := range hosts {
		if x.ends[h] != nil {
			x.t.Errorf("host %d: %v", h, x.ends[h])
		} else if !bytes.Equal(x.stores[h].content[x.m.SHA256], x.program) {
			x.t.Errorf("host %d has not the content of the program", h)
		}
		if x.stores[h].drafts != 0 {
			x.t.Errorf("host %d keeps %d drafts open", h, x.stores[h].drafts)
		}
	}
}

func TestAProgramReachesFourHostsInTheTimeOfOneCopy(t *testing.T) {
	const size = 30 << 20
	link := sim.Link{Bandwidth: 125_000_000}
	one := newTree(t, sim.Config{Seed: sim.Seed(1), NICs: 2, Link: link}, size, nil)
	one.run()
	one.complete(0)
	four := newTree(t, sim.Config{Seed: sim.Seed(1), NICs: 5, Link: link}, size, nil)
	four.run()
	four.complete(0, 1, 2, 3)
	slowest := max(four.took[0], four.took[1], four.took[2], four.took[3])
	t.Logf("1 host: %v; 4 hosts: %v", one.took[0], slowest)
	if float64(slowest) > 1.3*float64(one.took[0]) {
		t.Errorf("four hosts took %v, and one took %v; expected at most 1.3 times as long", slowest, one.took[0])
	}
	if sent := four.root.Stats().ServedBytes; sent != size {
		t.Errorf("the launcher sent %d bytes; expected the file once, %d", sent, size)
	}
}

func TestHostsThatHaveTheContentReceiveNothing(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(2), NICs: 5}, 1<<20, nil)
	x.run()
	x.complete(0, 1, 2, 3)
	again := newTree(t, sim.Config{Seed: sim.Seed(2), NICs: 5}, 1<<20, x.stores)
	again.run()
	again.complete(0, 1, 2, 3)
	for h, n := range again.nodes {
		if got := n.Stats().FetchedBytes; got != 0 {
			t.Errorf("host %d received %d bytes of a file that it has", h, got)
		}
	}
	if sent := again.root.Stats().ServedBytes; sent != 0 {
		t.Errorf("the launcher sent %d bytes; expected 0", sent)
	}
}

func TestAHostThatHasTheContentSendsItOn(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(3), NICs: 4}, 4<<20, nil)
	x.stores[1].content = map[string][]byte{x.m.SHA256: x.program}
	x.run()
	x.complete(0, 1, 2)
	if got := x.nodes[1].Stats(); got.FetchedBytes != 0 || got.ServedBytes != 4<<20 {
		t.Errorf("host 1 received %d bytes and sent %d; expected 0 and %d", got.FetchedBytes, got.ServedBytes, 4<<20)
	}
}

func TestAHostWhoseParentDiesAsksTheLauncher(t *testing.T) {
	for seed := range uint64(20) {
		x := newTree(t, sim.Config{Seed: sim.Seed(seed), NICs: 4, Link: sim.Link{Bandwidth: 10_000_000}}, 4<<20, nil)
		at := time.Duration(seed) * 20 * time.Millisecond
		x.After(20*time.Millisecond+at, func() {
			if seed%2 == 0 {
				x.Kill(x.procs[2]) // the keeper of host 1
			} else {
				x.Partition(2)
				x.Kill(x.procs[2])
			}
		})
		x.run()
		x.complete(0, 2)
		if seed == 0 && x.nodes[2].Stats().LostParents != 1 {
			t.Error("host 2 did not notice that its parent died before it had sent the file")
		}
	}
}

func TestAHostThatCannotStoreTheFileTellsItsChild(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(4), NICs: 4, Link: sim.Link{Bandwidth: 10_000_000}}, 4<<20, nil)
	noSpace := errors.New("no space left on device")
	x.stores[1].full = noSpace
	x.run()
	x.complete(0, 2)
	if !errors.Is(x.ends[1], noSpace) {
		t.Errorf("host 1 ends with %v; expected %v", x.ends[1], noSpace)
	}
	if x.took[2] > limits.StagedPatience+10*time.Second {
		t.Errorf("host 2 took %v", x.took[2])
	}
}

func TestWrongContentIsRefusedAndNotPassedOn(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(5), NICs: 4}, 4<<20, nil)
	lie := bytes.Clone(x.program)
	lie[700_000]++
	x.stores[0].content = map[string][]byte{x.m.SHA256: lie} // a store that does not check
	x.run()
	x.complete(1, 2)
	if got := x.nodes[1].Stats(); got.WrongChunks == 0 || got.LostParents != 1 {
		t.Errorf("host 1 refused %d chunks and left %d parents; expected some and 1", got.WrongChunks, got.LostParents)
	}
	if got := x.nodes[2].Stats(); got.WrongChunks != 0 {
		t.Errorf("host 2 received %d wrong chunks; expected that host 1 keeps them", got.WrongChunks)
	}
}

func TestAFileThatChangedAtTheLauncherFailsEverywhere(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(6), NICs: 4}, 1<<20, nil)
	x.program[1<<19]++
	x.run()
	for h, err := range x.ends {
		if err == nil || x.stores[h].content != nil {
			t.Errorf("host %d: %v; expected that it refuses the file", h, err)
		}
	}
	if !errors.Is(x.ends[0], ErrContent) {
		t.Errorf("host 0 ends with %v; expected ErrContent", x.ends[0])
	}
}

func TestFetchFailsWhenTheLauncherIsGone(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(7), NICs: 4, Link: sim.Link{Bandwidth: 10_000_000}}, 4<<20, nil)
	x.After(150*time.Millisecond, func() { x.Kill(x.procs[0]) })
	x.run()
	for h, err := range x.ends {
		if !errors.Is(err, weft.ErrProcessGone) && !errors.Is(err, weft.ErrNameUnknown) {
			t.Errorf("host %d ends with %v; expected that the launcher is gone", h, err)
		}
	}
}

func TestStrangersGetNothing(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(8), NICs: 2}, 1<<20, nil)
	x.Process(1, "stranger/1", func(p *sim.Process) error {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		own, err := p.Port(port)
		if err != nil {
			return err
		}
		var request [requestBytes]byte
		x.m.putRequest(&request, 0)
		if _, err := p.WaitName(ctx, x.Tree.Name(Launcher)); err != nil {
			return err
		}
		m, err := own.Peer(x.Tree.Name(Launcher)).Call(ctx, 0, request[:], make([]byte, x.m.replyBytes()))
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a stranger got %d bytes, and %w; expected no reply", m.Len, err)
		}
		return nil
	})
	x.run()
	x.complete(0)
	if got := x.root.Stats().Refused; got != 1 {
		t.Errorf("the launcher counted %d refused requests; expected 1", got)
	}
}

func TestManyHostsGetTheFileUnderFaults(t *testing.T) {
	faults := sim.Faults{Loss: 0.01, Duplicate: 0.01, Reorder: 0.01, Corrupt: 0.001, Delay: 0.01, DelayMax: 100 * time.Millisecond}
	for seed := range uint64(5) {
		x := newTree(t, sim.Config{Seed: sim.Seed(seed), NICs: 13, Faults: faults}, 2<<20, nil)
		x.run()
		for h := range x.Hosts {
			x.complete(h)
		}
		if x.Tree.Fan != 2 {
			t.Fatalf("the tree has %d children a host; expected 2", x.Tree.Fan)
		}
	}
}

func TestAnEmptyFileCanBeStaged(t *testing.T) {
	x := newTree(t, sim.Config{Seed: sim.Seed(9), NICs: 3}, 0, nil)
	x.run()
	x.complete(0, 1)
}
