package stream

import (
	"io"
	"testing"
)

// Each long message has to be asked for, so a Write leaves in as few as it can: one that fills the peer's buffer in two.
func TestAWriteThatFillsTheWindowIsTwoMessages(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "two")
	sent := func() uint64 { return client.NIC().Counters()["nic_messages_sent"] }
	before := sent()
	wrote := make(chan error, 1)
	go func() { _, err := c.Write(make([]byte, readBuffer)); wrote <- err }()
	if _, err := io.ReadFull(s, make([]byte, readBuffer)); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	for f := c.oldest(); f != nil; f = c.oldest() {
		if _, err := f.op.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := sent() - before; n != 2 {
		t.Errorf("a Write of %d bytes left as %d messages; expected 2", readBuffer, n)
	}
}

// A part of a message waits for room for the whole, but never if it would be for nothing: with nothing under way no answer might bring any.
func TestAPartOfAMessageWaitsWhileOthersAreUnderWay(t *testing.T) {
	for _, x := range []struct {
		n, left, under int
		worth          bool
	}{
		{0, 1, 0, false},
		{0, 1, 1, false},
		{1, 2, 0, true},
		{1, 2, 1, false},
		{dataBytes - 1, dataBytes, 1, false},
		{dataBytes - 1, dataBytes - 1, 1, true},
		{dataBytes, dataBytes, 1, true},
		{dataBytes, 2 * dataBytes, 1, true},
	} {
		c := &Conn{ops: &flights{begun: x.under}}
		if got := c.worth(x.n, x.left); got != x.worth {
			t.Errorf("%d of %d bytes with %d messages under way are worth one: %v; expected %v", x.n, x.left, x.under, got, x.worth)
		}
	}
}
