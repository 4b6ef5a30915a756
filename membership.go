package weft

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
)

// Membership is a group that a process joins as it attaches.
type Membership struct {
	Group string // the group's name; empty means the name of the process's application
	Size  int    // the number of members, 1 to 4096
}

// AppGroup returns the names of the live processes of this process's application, itself included,
// in the order of their indexes. A process is listed as soon as this process's NIC knows its name,
// without a join and without waiting. For operations of a group all members must know the group's
// size; see [Process.Join] and [AttachConfig.Groups].
func (p *Process) AppGroup(ctx context.Context) ([]Name, error) {
	if err := ended(ctx, "list"); err != nil {
		return nil, err
	}
	all, err := p.p.AppGroup(ctx)
	names := make([]Name, len(all))
	for i, n := range all {
		names[i] = nameOf(n)
	}
	return names, opError(err)
}

// Group returns the group with a name that this process joined as it attached, or nil. An empty
// name means that of the process's application.
func (p *Process) Group(name string) *Group {
	if name == "" {
		name = p.name.App
	}
	return p.groups[name]
}

// joinAll joins the groups of a process that attaches, all at once. If it joined one after the
// other, two processes that name the same groups in different orders would wait for each other.
func (p *Process) joinAll(ctx context.Context, all []Membership) error {
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	groups, errs := make([]*Group, len(all)), make([]error, len(all))
	var joins sync.WaitGroup
	for i, m := range all {
		if m.Group == "" {
			m.Group = p.name.App
		}
		joins.Go(func() {
			if groups[i], errs[i] = p.Join(ctx, m.Group, m.Size); errs[i] != nil {
				cancel() // one failure fails all
			}
		})
	}
	joins.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) }); i >= 0 {
		return errs[i]
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.groups = make(map[string]*Group)
	for _, g := range groups {
		p.groups[g.Name()] = g
	}
	return nil
}

// joined returns a process that has just been attached, once it is in all its groups. If a join
// fails, it closes the process.
func (p *Process) joined(ctx context.Context, all []Membership) (*Process, error) {
	if err := p.joinAll(ctx, all); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// liveNames returns the names of the reachable processes.
func liveNames(all []nic.NameInfo) (names []vni.Name) {
	for _, n := range all {
		if n.Reachable {
			names = append(names, n.Name)
		}
	}
	return names
}
