package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// Operations of the members of a group that can be measured.
const (
	KindBarrier   = "barrier"
	KindBroadcast = "broadcast"
	KindAllReduce = "allreduce"
)

// GroupOptions say what to measure of a group. Each member has its own NIC, and all are in this
// program.
type GroupOptions struct {
	Kind    string
	Link    string
	Members int
	Sizes   []int // bytes; a barrier has none
	Time    time.Duration
	Sealing
}

// GroupRow is one measurement: the duration of the operation at rank 0, which is the root of
// broadcasts.
type GroupRow struct {
	Bench      string `json:"bench"`
	Sealed     bool   `json:"sealed"` // the links between NICs
	Link       string `json:"link"`
	Members    int    `json:"members"`
	Size       int    `json:"size"` // bytes
	Iterations int64  `json:"iterations"`
	Latency
}

// groupName is the name of the application and of the group.
const groupName = "weft-bench"

// batch is how many operations the members do before rank 0 tells them again whether to go on.
const batch = 32

// RunGroup opens the NICs, makes the measurements, and passes each row to out.
func RunGroup(ctx context.Context, o GroupOptions, out func(GroupRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	procs, err := down.openMembers(ctx, o)
	if err != nil {
		return err
	}
	for _, size := range o.Sizes {
		h := newHistogram()
		if err := load.Together(ctx, len(procs), func(ctx context.Context,
			i int) error {
			return o.member(ctx, procs[i], size, h)
		}); err != nil {
			return fmt.Errorf("%s of %d members, %d bytes: %w", o.Kind, o.Members, size, err)
		}
		r := GroupRow{Bench: o.Kind, Sealed: o.Sealed, Link: o.Link, Members: o.Members, Size: size,
			Iterations: h.TotalCount(), Latency: h.latency()}
		if err := out(r); err != nil {
			return err
		}
	}
	return nil
}

// openMembers opens a NIC with one process for each member.
func (u *undo) openMembers(ctx context.Context, o GroupOptions) (procs []*weft.Process, err error) {
	cfg := o.over(weft.Config{})
	switch o.Link {
	case LinkMem:
		cfg.Link = weft.NewSwitch().Link()
	case LinkShm:
		cfg.Link = weft.SharedMemory("")
	}
	for i := range o.Members {
		cfg.Name = weft.Name{App: groupName, Index: uint32(i)}
		p, err := weft.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		u.add(p.Close)
		procs = append(procs, p)
		cfg.Nodes = append(cfg.Nodes, weft.Node{ID: p.NIC().ID(), Addr: p.NIC().Addr()})
	}
	return procs, nil
}

// member runs one member's part of a measurement. Rank 0 has the clock.
func (o *GroupOptions) member(ctx context.Context, p *weft.Process, size int, h *times) error {
	g, err := p.Join(ctx, groupName, o.Members)
	if err != nil {
		return err
	}
	buf, vector, on := make([]byte, size), make([]int64, (size+7)/8), []byte{1}
	begin := time.Now()
	warm := begin.Add(warmUp(o.Time))
	for on[0] == 1 {
		for range batch {
			start := time.Now()
			switch o.Kind {
			case KindBarrier:
				err = g.Barrier(ctx)
			case KindBroadcast:
				err = g.Broadcast(ctx, 0, buf)
			case KindAllReduce:
				err = weft.AllReduce(ctx, g, weft.Sum, vector)
			}
			if err != nil {
				return err
			}
			if g.Rank() == 0 && start.After(warm) {
				h.note(time.Since(start))
			}
		}
		if time.Since(begin) >= o.Time+warmUp(o.Time) {
			on[0] = 0
		}
		if err := g.Broadcast(ctx, 0, on); err != nil {
			return err
		}
	}
	return g.Close()
}
