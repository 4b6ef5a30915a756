package weft

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/mem"
)

// duringAttach is a context that calls a function when Attach waits for the NIC to register the
// process.
type duringAttach struct {
	context.Context
	once sync.Once
	do   func()
}

func (c *duringAttach) Done() <-chan struct{} {
	c.once.Do(c.do)
	return c.Context.Done()
}

func TestAProcessThatAttachesWhileItsNICClosesIsClosedToo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := OpenNIC(ctx, Config{Link: NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	closes, attached, waits := make(chan error, 1), make(chan error, 1), make(chan struct{})
	c := &duringAttach{Context: ctx, do: func() {
		go func() { closes <- n.Close() }()
		for n.alive() == nil {
			time.Sleep(time.Millisecond)
		}
		close(waits)
	}}
	var p *Process
	n.poller.Do(func(clock.Time) { // inside Do, the NIC registers no process before Attach waits
		go func() {
			var err error
			p, err = n.Attach(c, Name{App: "late"})
			attached <- err
		}()
		<-waits
	})
	err = <-attached
	if err := <-closes; err != nil {
		t.Errorf("the NIC closed with %v", err)
	}
	if err == nil {
		_, err = p.Recv(ctx, AnyProcess, 1, nil)
	}
	if !errors.Is(err, ErrClosed) {
		t.Errorf("%v; expected %v of Attach or of a later receive", err, ErrClosed)
	}
}

// slowLink closes only after another call has returned, or after 50 ms if that call waits for
// slowLink.
type slowLink struct {
	link.Driver
	closing chan struct{}
	other   chan struct{}
	closed  atomic.Bool
}

func (l *slowLink) Close() error {
	close(l.closing)
	select {
	case <-l.other:
	case <-time.After(50 * time.Millisecond):
	}
	defer l.closed.Store(true)
	return l.Driver.Close()
}

func TestEveryCloseReturnsWhenTheNICHasEnded(t *testing.T) {
	for _, of := range []string{"NIC", "process of Open"} {
		l := &slowLink{Driver: mem.NewSwitch(mem.Config{}).Port(), closing: make(chan struct{}), other: make(chan struct{})}
		n, err := openNIC(Config{}, l)
		if err != nil {
			t.Fatal(err)
		}
		p, err := n.Attach(t.Context(), Name{App: "a"})
		if err != nil {
			t.Fatal(err)
		}
		p.closeNIC = true
		end := n.Close
		if of != "NIC" {
			end = p.Close
		}
		first := make(chan error, 1)
		go func() { first <- end() }()
		<-l.closing
		if err := end(); err != nil {
			t.Errorf("the second Close of the %s: %v", of, err)
		}
		if !l.closed.Load() {
			t.Errorf("the second Close of the %s has returned before the NIC's link was closed", of)
		}
		close(l.other)
		if err := <-first; err != nil {
			t.Errorf("the first Close of the %s: %v", of, err)
		}
	}
}

// The counters of a NIC can be read at any time. Some counters belong to the link, so the race
// detector checks that the link is not closed while they are read.
func TestTheCountersOfANICAreReadWhileItCloses(t *testing.T) {
	for what, cfg := range map[string]Config{"memory": {Link: NewSwitch().Link()}, "UDP": {Link: UDP("127.0.0.1:0")}} {
		for range 5 {
			n, err := OpenNIC(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			var over atomic.Bool
			var reader sync.WaitGroup
			reader.Go(func() {
				for !over.Load() {
					n.Counters()
				}
			})
			if err := n.Close(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			over.Store(true)
			reader.Wait()
		}
	}
}
