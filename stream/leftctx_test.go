package stream

import (
	"context"
	"testing"
	"time"
)

// A Read may find no bytes just before Close or a failure, and start to wait just after it. None
// of its contexts may stay among the contexts that end with the process.
func TestAReadThatComesToWaitBehindTheEndOfItsStreamLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, client := onSwitch(t)
	l, err := Listen(server, "sink")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for what, end := range map[string]func(*Conn){"Close": func(c *Conn) { c.Close() }, "Abort": (*Conn).Abort} {
		c, err := Dial(ctx, client, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.readNow(make([]byte, 1)); n != 0 || err != nil {
			t.Fatalf("a silent stream has %d bytes, %v", n, err)
		}
		end(c)
		c.waitToRead()
		if n := c.readWanted(); n != 0 {
			t.Errorf("%d bytes came behind %s", n, what)
		}
		if c.stopLead != nil {
			t.Errorf("behind %s a Read has left its context", what)
		}
	}
}
