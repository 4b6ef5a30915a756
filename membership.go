package weft

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/vni"
)

// Membership describes a group that a process joins when it attaches.
type Membership struct {
	Group string // the name of the group; if empty, the name of the process's application
	Size  int    // the number of members, 1 to 4096
}

// AppGroup returns the names of the live processes of this process's application, in the order of
// their indexes. The result includes this process. The result includes another process as soon as
// this process's NIC knows the name of that process. AppGroup requires no Join and does not wait
// for more processes. Group operations need a group whose size all members know: see [Process.Join]
// and [AttachConfig].Groups.
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

// Group returns a group that this process joined when it attached. It returns nil if the process
// joined no group with the given name when it attached. An empty name means the name of the
// process's application.
func (p *Process) Group(name string) *Group {
	if name == "" {
		name = p.name.App
	}
	return p.groups[name]
}

// joinAll joins all the groups of a process concurrently. If each process joined one group after
// the other, two processes with the same groups in different orders would wait for each other.
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
				cancel() // if one join fails, all fail
			}
		})
	}
	joins.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool {
		return err != nil && !errors.Is(err, context.Canceled)
	}); i >= 0 {
		return errs[i]
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.groups = make(map[string]*Group)
	for _, g := range groups {
		p.groups[g.Name()] = g
		p.joinedWorld(g)
	}
	return nil
}

// joined waits until a newly attached process is in all its groups, and returns the process. If a
// join fails, joined closes the process.
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
