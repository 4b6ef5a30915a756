package registry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// told is a registry whose contents the test sets.
type told struct {
	nodes chan []Node
	now   []Node
	fails error
}

func (r *told) Nodes() []Node { return r.now }

func (r *told) Watch(ctx context.Context, changed func([]Node)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case l, ok := <-r.nodes:
			if !ok {
				return r.fails
			}
			r.now = l
			changed(l)
		}
	}
}

func node(s string) Node {
	n, err := ParseNode(s)
	if err != nil {
		panic(err)
	}
	return n
}

func TestOfTwoRegistriesTheFirstIsBelieved(t *testing.T) {
	written := &told{now: []Node{node("10.0.0.1:1"), node("0:0:0:0:0:0:0:2@10.0.0.2:1"), node("10.0.0.9:1")}}
	heard := &told{now: []Node{
		node("0:0:0:0:0:0:0:1@10.0.0.1:1"), // the same address
		node("0:0:0:0:0:0:0:2@10.0.0.8:1"), // the same id elsewhere
		node("0:0:0:0:0:0:0:3@10.0.0.3:1"),
		node("10.0.0.4:1"),
	}}
	got := fmt.Sprint(Merge(written, heard).Nodes())
	want := "[10.0.0.1:1 0:0:0:0:0:0:0:2 at 10.0.0.2:1 10.0.0.9:1 0:0:0:0:0:0:0:3 at 10.0.0.3:1 10.0.0.4:1]"
	if got != want {
		t.Errorf("together they say\n%s, want\n%s", got, want)
	}
}

func TestAChangeInEitherRegistryIsToldWhole(t *testing.T) {
	a, b := &told{nodes: make(chan []Node)}, &told{nodes: make(chan []Node)}
	heard := make(chan string)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Merge(a, b).Watch(ctx, func(l []Node) { heard <- fmt.Sprint(l) }) }()
	a.nodes <- []Node{node("10.0.0.1:1")}
	if got := <-heard; got != "[10.0.0.1:1]" {
		t.Errorf("heard %s", got)
	}
	b.nodes <- []Node{node("10.0.0.2:1")}
	if got := <-heard; got != "[10.0.0.1:1 10.0.0.2:1]" {
		t.Errorf("heard %s", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestOneRegistryThatFailsEndsTheWatch(t *testing.T) {
	a, b := &told{nodes: make(chan []Node)}, &told{nodes: make(chan []Node), fails: errors.New("broken")}
	close(b.nodes)
	ended := make(chan error, 1)
	go func() { ended <- Merge(a, b).Watch(t.Context(), func([]Node) {}) }()
	select {
	case err := <-ended:
		if !errors.Is(err, b.fails) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the watch goes on without one of its registries")
	}
}

// swapped is a registry whose list changes while the news of an earlier change is being told.
type swapped struct {
	list  atomic.Pointer[[]Node]
	tells chan struct{} // each has Watch tell of the list
}

func (r *swapped) Nodes() []Node { return *r.list.Load() }

func (r *swapped) Watch(ctx context.Context, changed func([]Node)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.tells:
			changed(r.Nodes())
		}
	}
}

// The last list that a watcher is told is the list as it stands, whichever registry told of its change first.
func TestTheNewestListIsToldLast(t *testing.T) {
	one, two := []Node{node("10.0.0.1:1")}, []Node{node("10.0.0.2:1")}
	a, b := &swapped{tells: make(chan struct{})}, &swapped{tells: make(chan struct{})}
	a.list.Store(&one)
	b.list.Store(new([]Node))
	told := make(chan string)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Merge(a, b).Watch(ctx, func(l []Node) { told <- fmt.Sprint(l) }) }()
	a.tells <- struct{}{}
	b.tells <- struct{}{}             // has to wait: the watcher has not taken the first list yet
	time.Sleep(20 * time.Millisecond) // a list that is taken too early is taken by now
	b.list.Store(&two)
	first, last := <-told, <-told
	if want := fmt.Sprint(Merge(a, b).Nodes()); last != want {
		t.Errorf("told %s, and last %s; the list is %s", first, last, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
