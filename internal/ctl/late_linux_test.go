package ctl

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
