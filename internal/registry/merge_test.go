package registry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
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

// slow is a registry whose Nodes waits for the test, and whose Watch reports the test's changes.
type slow struct {
	mu      sync.Mutex
	now     []Node
	changes chan []Node
	read    func() // called by Nodes after it has read the list
	fails   error
}

func (r *slow) Nodes() []Node {
	r.mu.Lock()
	l, read := r.now, r.read
	r.mu.Unlock()
	if read != nil {
		read()
	}
	return l
}

func (r *slow) Watch(ctx context.Context, changed func([]Node)) error {
	for {
		select {
		case <-ctx.Done():
			return r.fails
		case l := <-r.changes:
			r.mu.Lock()
			r.now = l
			r.mu.Unlock()
			changed(l)
		}
	}
}

// Two registries change at the same time. The caller is told of one change after the other, and
// the last list that it is told has both changes.
func TestChangesAtOnceAreToldOneAfterTheOther(t *testing.T) {
	a, b := &slow{changes: make(chan []Node)}, &slow{changes: make(chan []Node)}
	// The goroutine of a has read the lists. It goes on when b has changed, too.
	read, goOn := make(chan struct{}), make(chan struct{})
	var reads atomic.Int32
	b.read = func() {
		if reads.Add(1) == 1 {
			close(read)
			<-goOn
		}
	}
	var inside atomic.Int32
	heard := make(chan string, 2)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Merge(a, b).Watch(ctx, func(l []Node) {
			if inside.Add(1) != 1 {
				t.Error("two changes are told at once")
			}
			heard <- fmt.Sprint(l)
			inside.Add(-1)
		})
	}()
	a.changes <- []Node{node("10.0.0.1:1")}
	<-read
	b.changes <- []Node{node("10.0.0.2:1")}
	for { // until b has changed
		b.mu.Lock()
		changed := len(b.now) > 0
		b.mu.Unlock()
		if changed {
			break
		}
		runtime.Gosched()
	}
	for range 100 { // b's goroutine tells its change, if nothing keeps it from that
		runtime.Gosched()
	}
	early := len(heard)
	close(goOn)
	first, last := <-heard, <-heard
	if early != 0 || last != "[10.0.0.1:1 10.0.0.2:1]" {
		t.Errorf("told %s, then %s, %d of them while the first was made", first, last, early)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// If several registries can no longer be watched, the error has the reason of each.
func TestTheEndOfAWatchHasEachReason(t *testing.T) {
	why := []error{errors.New("one"), errors.New("two")}
	a, b := &told{nodes: make(chan []Node), fails: why[0]}, &slow{changes: make(chan []Node), fails: why[1]}
	close(a.nodes)
	err := Merge(a, b).Watch(t.Context(), func([]Node) {})
	for _, w := range why {
		if !errors.Is(err, w) {
			t.Errorf("ended with %v; expected %v in it", err, w)
		}
	}
}
