package ctl

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A daemon may answer late, refuse, or send more descriptors than requested. The client closes
// the descriptors of such replies.
func TestTheDescriptorsOfRepliesThatAreNotTakenAreClosed(t *testing.T) {
	fd := memfd(t, 4096)
	answers := make(chan func(c *Client) error, 3)
	asked := make(chan struct{}, 8)
	path := serve(t, func(c *Client, _ *Request) error {
		asked <- struct{}{}
		return (<-answers)(c)
	})
	c := dial(t, path)
	name := func(fds ...int) func(c *Client) error {
		return func(c *Client) error { return c.Reply(&Reply{Names: []Name{{Name: "app/1", NIC: 1}}}, fds...) }
	}
	round := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { <-asked; cancel() }()
		if _, err := c.Names(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("a question that is not answered: %v", err)
		}
		answers <- name(fd, fd) // late
		answers <- name(fd)     // one more than requested
		if _, err := c.Names(t.Context()); err == nil {
			t.Fatal("a reply with a descriptor that was not asked for is taken")
		}
		answers <- func(c *Client) error { return c.Reply(&Reply{Error: &Error{Text: "no"}}, fd) }
		if _, err := c.Names(t.Context()); err == nil {
			t.Fatal("a refusal is taken for an answer")
		}
		answers <- name()
		if _, err := c.Names(t.Context()); err != nil {
			t.Fatalf("an answer behind them: %v", err)
		}
		for range 3 {
			<-asked
		}
	}
	round()
	before := openFiles(t)
	for range 5 {
		round()
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open; before five rounds there were %d", after, before)
	}
}

// A context may end as its reply comes. The deadline by which it would have ended the call ends no
// later call on the connection.
func TestAContextThatEndsWithItsReplyEndsNoLaterCall(t *testing.T) {
	path := serve(t, func(c *Client, _ *Request) error { return c.Reply(&Reply{}) })
	c := dial(t, path)
	for round := range 200 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			replied := c.until(ctx)
			cancel()
			replied()
			synctest.Wait() // for what the end of the context has begun
		})
		if _, err := c.Names(t.Context()); err != nil {
			t.Fatalf("a call with time, after %d whose contexts ended: %v", round+1, err)
		}
	}
}

// begun is a context that ends as soon as a call has begun with it.
type begun struct {
	context.Context
	end func()
}

func (b begun) Err() error {
	defer b.end()
	return b.Context.Err()
}

// A call may end while it reads the reply to the call before. The connection still owes that reply,
// and a third call does not take it for its answer.
func TestAReplyIsOwedUntilItHasCome(t *testing.T) {
	answers := make(chan *Reply, 2)
	asked := make(chan string, 3)
	path := serve(t, func(c *Client, r *Request) error {
		asked <- r.Op
		return c.Reply(<-answers)
	})
	c := dial(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := c.Nodes(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("a question that is not answered: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	if _, err := c.Nodes(begun{ctx, cancel}); !errors.Is(err, context.Canceled) {
		t.Fatalf("a question behind it: %v", err)
	}
	answers <- &Reply{Nodes: []Node{{ID: 7}}}
	answers <- &Reply{Names: []Name{{Name: "app/1", NIC: 1}}}
	if names, err := c.Names(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("a third question: %v, %v; expected its own answer", names, err)
	}
	if op := <-asked; op != OpNames {
		t.Errorf("the daemon was asked for %q; expected %q", op, OpNames)
	}
}

// After a reply that is not one, nothing on the connection is certain. Later calls fail without a
// request, and for the process of the connection the daemon is gone.
func TestAConnectionWithAReplyThatIsNoneIsBroken(t *testing.T) {
	asked := make(chan string, 2)
	path := serve(t, func(c *Client, r *Request) error {
		asked <- r.Op
		_, err := c.c.Write([]byte("nonsense"))
		return err
	})
	c := dial(t, path)
	lost := 0
	c.lost = func() { lost++ }
	_, first := c.Names(t.Context())
	if first == nil || lost != 1 {
		t.Fatalf("a reply that is none: %v; the daemon is given up %d times, expected once", first, lost)
	}
	<-asked
	if _, err := c.Names(t.Context()); !errors.Is(err, first) || len(asked) != 0 {
		t.Errorf("the next call: %v, after %d requests; expected %v without one", err, len(asked), first)
	}
}

// An unsent request has no reply. The next call does not wait for one.
func TestARequestThatWasNotSentOwesNoReply(t *testing.T) {
	c := dial(t, serve(t, func(c *Client, _ *Request) error { return c.Reply(&Reply{}) }))
	if err := c.c.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Names(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a request without time: %v; expected a timeout", err)
	}
	if err := c.c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, "the next call", func() error { _, err := c.Names(t.Context()); return err }); err != nil {
		t.Error(err)
	}
}
