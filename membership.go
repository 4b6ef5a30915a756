package weft

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
)

// Membership is a group that a process joins as it attaches (QNIX-54).
type Membership struct {
	Group string // empty: that of the process's application, which is called like it
	Size  int    // how many members it has
}

// AppGroup lists the processes of this process's application that live now, this one among them, by index. Every process
// belongs to that group without asking (QNIX-55): no process waits for another, and one is listed as long as the NIC
// here knows its name. To do things together, all have to know how many they are: see [AttachConfig.Groups].
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

// Group is the group of that name that this process joined as it attached, of its application if name is empty; nil if
// there is none.
func (p *Process) Group(name string) *Group {
	if name == "" {
		name = p.name.App
	}
	return p.groups[name]
}

// joinAll joins the groups that a process is to be in from the start, all at a time: in turn, two processes that name the
// same groups in different orders would wait for each other.
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
				cancel() // the others are of no use
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

// joined gives a process that has just been attached, once it is in all its groups; else it is closed.
func (p *Process) joined(ctx context.Context, all []Membership) (*Process, error) {
	if err := p.joinAll(ctx, all); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// liveNames are the names of those that can be reached.
func liveNames(all []nic.NameInfo) (names []vni.Name) {
	for _, n := range all {
		if n.Reachable {
			names = append(names, n.Name)
		}
	}
	return names
}
