package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// dialled returns the two ends of a stream between two processes.
func dialled(t *testing.T, a, b *weft.Process, service string) (c, s *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Listen(a, service)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conn, err := (&Dialer{Process: b}).DialContext(ctx, "weft", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, s = conn.(*Conn), accepted.(*Conn)
	end, _ := ctx.Deadline()
	_, _ = c.SetDeadline(end), s.SetDeadline(end)
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

// A peer that does not read gives no room. Short Writes return nevertheless, as long as their
// bytes can be joined. When the peer reads again, all of them together are few messages.
func TestShortWritesWithoutRoomAreJoined(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "joined")
	const piece, pieces = 100, 500
	want := make([]byte, readBuffer+piece*pieces)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	if _, err := c.Write(want[:readBuffer]); err != nil {
		t.Fatal(err)
	}
	for i := range pieces {
		if _, err := c.Write(want[readBuffer+i*piece:][:piece]); err != nil {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	waits := len(c.joined)
	c.mu.Unlock()
	if waits != piece*pieces {
		t.Fatalf("%d bytes wait to be sent; expected the %d for which the peer has no room", waits, piece*pieces)
	}
	var count messageCount
	before := count.of(c)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes came of %d, %v", len(got), len(want), err)
	}
	if n := count.of(c) - before; n > 2 {
		t.Errorf("%d writes of %d bytes left as %d messages; expected one, or two", pieces, piece, n)
	}
}

// messageCount counts the messages of a stream that the NIC did not copy. A stream that is silent
// for a second frees the memory with the count, and takes new memory for its next message.
// messageCount therefore keeps each memory that it has seen.
type messageCount struct{ seen []*flights }

// of returns how many messages have been started.
func (n *messageCount) of(c *Conn) (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops != nil && !slices.Contains(n.seen, c.ops) {
		n.seen = append(n.seen, c.ops)
	}
	for _, w := range n.seen {
		sum += w.begun
	}
	return sum
}

// A silent second of a busy machine must not end a test that counts messages.
func TestMessagesAreCountedThoughASilentStreamFreesTheirMemory(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "counted")
	go io.Copy(io.Discard, s)
	var count messageCount
	for i := range 3 {
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		before := count.of(c)
		for freed := false; !freed; time.Sleep(time.Millisecond) {
			if err := c.late(c.writeEnd); err != nil {
				t.Fatal("memory is kept")
			}
			c.keepAlive(time.Now())
			c.mu.Lock()
			freed = c.ops == nil
			c.mu.Unlock()
		}
		if n := count.of(c); n < before || n == 0 {
			t.Errorf("after Write %d, %d messages are counted, and %d when their memory was free", i, before, n)
		}
	}
}

// A Write beyond the limit of joined bytes waits, and its deadline ends it. Exactly the bytes
// that it took arrive.
func TestAWriteThatWaitsForRoomEndsByItsDeadline(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "joined")
	sum := 0
	patient, brief := time.Now().Add(time.Minute), 50*time.Millisecond
	if err := c.SetWriteDeadline(patient); err != nil {
		t.Fatal(err)
	}
	for sum < readBuffer+mostJoined { // the room of the peer and of the stream itself
		n, err := c.Write(make([]byte, 1<<10))
		if sum += n; err != nil {
			t.Fatalf("behind %d bytes: %v", sum, err)
		}
	}
	if err := c.SetWriteDeadline(time.Now().Add(brief)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Write(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes more were taken: %v", n, err)
	}
	if err := c.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil { // it does not wait for the peer, but all bytes arrive
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil || len(got) != sum {
		t.Errorf("%d bytes came, %v; expected %d", len(got), err, sum)
	}
}

// A closed stream is not kept for ever by its unsent bytes.
func TestAClosedStreamWhosePeerReadsNothingIsGivenUp(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "joined")
	if _, err := c.Write(make([]byte, readBuffer+1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.keepAlive(c.closed.Add(lingers - 1))
	h := c.h
	known := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.conns[c.number] != nil
	}
	if !known() {
		t.Fatal("a stream with something left to send was forgotten")
	}
	c.keepAlive(c.closed.Add(lingers))
	for end := time.Now().Add(time.Minute); known(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a stream was kept whose peer reads nothing")
		}
	}
	if _, err := io.ReadAll(s); err == nil {
		t.Error("the peer read to the end of a stream that was given up")
	}
}

// A process that was stopped could send nothing meanwhile. Its closed streams still get all of
// their time.
func TestAClosedStreamHasItsTimeThoughItsProcessWasStopped(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "joined")
	if _, err := c.Write(make([]byte, readBuffer+1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	at := c.closed
	c.mu.Unlock()
	c.overslept(time.Hour)
	c.keepAlive(at.Add(time.Hour + lingers - 1))
	if n, err := io.Copy(io.Discard, s); err != nil || n != readBuffer+1 {
		t.Errorf("%d bytes came, %v; expected %d and the end", n, err, readBuffer+1)
	}
}

// An idle stream keeps no memory of bytes that it has sent.
func TestASilentStreamKeepsNoMemoryOfWhatItHasSent(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "joined")
	go io.Copy(io.Discard, s)
	for range 3 {
		if _, err := c.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for held := true; held; time.Sleep(time.Millisecond) {
		if err := c.late(c.writeEnd); err != nil {
			t.Fatal("memory is kept")
		}
		c.keepAlive(time.Now())
		c.mu.Lock()
		held = c.ops != nil || c.joined != nil
		c.mu.Unlock()
	}
}

// A Write may have checked for room just before the stream is closed. It then sends nothing after
// the end: the peer has been told that no bytes follow.
func TestAWriteThatACloseOvertakesTakesNothing(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "joined")
	if _, err := c.Write(make([]byte, readBuffer)); err != nil {
		t.Fatal(err)
	}
	if err := c.writing.Wait(t.Context()); err != nil { // as Write does
		t.Fatal(err)
	}
	ctx, room, draining, err := c.mayWrite(1)
	if err != nil || room != 0 || draining {
		t.Fatalf("room for %d, draining %v, %v", room, draining, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := c.launch(ctx, make([]byte, 1), room, nil)
	c.wrote(err)
	c.writing.Open()
	c.mu.Lock()
	if n != 0 || c.draining {
		t.Errorf("%d bytes were taken behind the Close; a goroutine sends: %v", n, c.draining)
	}
	c.mu.Unlock()
	if got, err := io.ReadAll(s); err != nil || len(got) != readBuffer {
		t.Errorf("the peer read %d bytes, %v; expected %d and the end", len(got), err, readBuffer)
	}
}
