package registry

import (
	"context"
	"slices"
	"sync"
)

// List is a list of nodes that its owner changes. It is safe for concurrent use.
type List struct {
	mu      sync.Mutex
	nodes   []Node
	changed chan struct{} // closed when nodes changes
}

// NewList returns a list with the given nodes.
func NewList(nodes []Node) *List {
	return &List{nodes: slices.Clone(nodes), changed: make(chan struct{})}
}

// Set checks a list as NewStatic does, and makes it the current one.
func (l *List) Set(nodes []Node) error {
	return l.Change(func([]Node) ([]Node, error) { return nodes, nil })
}

// Change replaces the list by f(list). No other change happens in between. If f fails or the result
// is not valid, the list stays.
func (l *List) Change(f func(now []Node) ([]Node, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, err := f(slices.Clone(l.nodes))
	if err != nil {
		return err
	}
	if _, err := NewStatic(next); err != nil {
		return err
	}
	if slices.Equal(next, l.nodes) {
		return nil
	}
	l.nodes = slices.Clone(next)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// Nodes returns the current list.
func (l *List) Nodes() []Node {
	nodes, _ := l.now()
	return nodes
}

func (l *List) now() ([]Node, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.nodes), l.changed
}

// Watch calls changed with the current list, and after each change, until ctx is done.
func (l *List) Watch(ctx context.Context, changed func([]Node)) error {
	for {
		nodes, next := l.now()
		changed(nodes)
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}
