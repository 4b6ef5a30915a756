//go:build unix

package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Plan is the message that tells keepers which file is staged, and along which tree.
type Plan struct {
	Manifest *Manifest `json:"manifest"`
	Tree     Tree      `json:"tree"`
}

// NewPlan returns the plan for the keepers of a job, which have the names APP/1 to APP/HOSTS.
func NewPlan(launcher weft.Name, app string, hosts int, m *Manifest) *Plan {
	return &Plan{Manifest: m, Tree: NewTree(launcher, app, hosts, m)}
}

// ReadPlan reads a plan that arrived from a launcher as JSON. It fails with [ErrManifest] if the
// plan is invalid.
func ReadPlan(text []byte) (*Plan, error) {
	p := new(Plan)
	if len(text) > limits.StagedPlanBytes {
		return nil, fmt.Errorf("%w: a plan of %d bytes; expected at most %d", ErrManifest, len(text),
			limits.StagedPlanBytes)
	}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrManifest, err)
	}
	if _, err := vni.MakeName(p.Tree.App, 0); err != nil {
		return nil, fmt.Errorf("%w: the application of the keepers: %v", ErrManifest, err)
	}
	if _, err := vni.MakeName(p.Tree.Root.App, p.Tree.Root.Index); err != nil {
		return nil, fmt.Errorf("%w: it names no launcher: %v", ErrManifest, err)
	}
	if t := p.Tree; t.Hosts < 1 || t.Hosts > limits.Peers || t.Fan < 1 || t.Fan > 2 {
		return nil, fmt.Errorf("%w: %d hosts in a tree with %d children each; expected 1 to %d hosts, 1 or 2 children",
			ErrManifest, t.Hosts, t.Fan, limits.Peers)
	}
	return p, p.Manifest.Check()
}

// Serve sends the content to the keepers that ask the launcher, until ctx ends. The content must
// stay readable until Serve returns.
func (p *Plan) Serve(ctx context.Context, launcher *weft.Process, content io.ReaderAt) (Stats, error) {
	cfg := Config{Process: launcher, Manifest: p.Manifest, Tree: p.Tree, Host: Launcher}
	n, err := Serve(cfg, content)
	// The Serve before a restart is ending.
	for tries := 0; errors.Is(err, weft.ErrPortInUse) && tries < 100; tries++ {
		if err := launcher.Runtime().Sleep(ctx, 20*time.Millisecond); err != nil {
			return Stats{}, nil
		}
		n, err = Serve(cfg, content)
	}
	if err != nil {
		return Stats{}, err
	}
	err = launcher.Runtime().WaitUntil(ctx, func() bool { return false })
	if ctx.Err() != nil {
		err = nil
	}
	return n.Stats(), errors.Join(err, n.Close())
}

// Staged is a file in the directory of a job on one host.
type Staged struct {
	Path string // of the file
	Dir  string // of the job

	node  *Node
	place *Place
	cache *Cache
}

// Bring brings the file of a plan into the directory of a job on the keeper's host. It uses the
// cache in the directory cacheDir, usually [DefaultDir]. Until [Staged.Close], the keeper serves
// the file to its children.
func (p *Plan) Bring(ctx context.Context, keeper *weft.Process, job string, host int,
	cacheDir string) (*Staged, error) {
	if host < 0 || host >= p.Tree.Hosts {
		return nil, fmt.Errorf("%w: host %d; expected 0 to %d", ErrManifest, host, p.Tree.Hosts-1)
	}
	c, err := OpenCache(cacheDir)
	if err != nil {
		return nil, err
	}
	s := &Staged{cache: c}
	s.node, err = Fetch(ctx, Config{Process: keeper, Manifest: p.Manifest, Tree: p.Tree, Host: host}, c)
	if err == nil {
		s.place, err = c.Place(job, host)
	}
	if err == nil {
		s.Dir = s.place.Dir()
		s.Path, err = s.place.Put(p.Manifest, s.node.held)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Stats returns the counts so far.
func (s *Staged) Stats() Stats { return s.node.Stats() }

// Close removes the directory of the job, and stops serving the file. Call it after the ranks
// have ended.
func (s *Staged) Close() (err error) {
	if s.node != nil {
		err = s.node.Close()
	}
	if s.place != nil {
		err = errors.Join(err, s.place.Remove())
	}
	return errors.Join(err, s.cache.Close())
}
