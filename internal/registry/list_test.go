package registry_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/registry"
)

func nodesAt(addrs ...string) (nodes []registry.Node) {
	for _, a := range addrs {
		nodes = append(nodes, registry.Node{Addr: netip.MustParseAddrPort(a)})
	}
	return nodes
}

func TestAWatcherOfAListSeesEachChangeAndNoRefusedOne(t *testing.T) {
	one, two := nodesAt("10.0.0.1:7700"), nodesAt("10.0.0.1:7700", "10.0.0.2:7700")
	l := registry.NewList(one)
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan []registry.Node), make(chan error, 1)
	go func() { done <- l.Watch(ctx, func(nodes []registry.Node) { seen <- nodes }) }()
	if got := <-seen; !slices.Equal(got, one) {
		t.Errorf("the watcher begins with %v", got)
	}
	if err := l.Set(nodesAt("10.0.0.1:7700", "10.0.0.1:7700")); err == nil {
		t.Error("an address stands twice in the list")
	}
	failed := errors.New("no")
	if err := l.Change(func([]registry.Node) ([]registry.Node, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("a change that fails: %v", err)
	}
	if err := l.Set(one); err != nil || !slices.Equal(l.Nodes(), one) {
		t.Errorf("%v, %v", l.Nodes(), err)
	}
	add := func(now []registry.Node) ([]registry.Node, error) { return append(now, two[1]), nil }
	if err := l.Change(add); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; !slices.Equal(got, two) {
		t.Errorf("after a change the watcher sees %v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
