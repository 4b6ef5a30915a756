package registry

import (
	"context"
	"errors"
	"net/netip"
	"sync"
)

// merged is the combined knowledge of several registries.
type merged []Registry

// Merge returns a registry of everything that the given registries know. If two disagree about an
// id or an address, the earlier one is believed: a list that a user wrote should precede one that
// was heard.
func Merge(registries ...Registry) Registry { return merged(registries) }

// Nodes returns the current list.
func (m merged) Nodes() (all []Node) {
	ids, addrs := map[NICID]bool{}, map[netip.AddrPort]bool{}
	for _, r := range m {
		for _, n := range r.Nodes() {
			if addrs[n.Addr] || n.ID != 0 && ids[n.ID] {
				continue
			}
			ids[n.ID] = true
			for _, a := range n.Addrs() {
				addrs[a] = true
			}
			all = append(all, n)
		}
	}
	return all
}

// Watch watches all of them until ctx is done, or one of them can no longer be watched.
func (m merged) Watch(ctx context.Context, changed func([]Node)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var one sync.Mutex // serialises the calls of changed
	var errs []error
	var all sync.WaitGroup
	for _, r := range m {
		all.Go(func() {
			err := r.Watch(ctx, func([]Node) {
				one.Lock()
				defer one.Unlock()
				changed(m.Nodes())
			})
			if err != nil {
				one.Lock()
				errs = append(errs, err)
				one.Unlock()
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
