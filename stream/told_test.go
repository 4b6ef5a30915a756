package stream

import (
	"errors"
	"io"
	"syscall"
	"testing"
)

// The accept message of a stream leaves before the stream notes that it has left. If the peer
// writes by then, it knows the stream. A message to the peer must then leave at once, before a
// reset.
func TestAnAnswerToAPeerThatWritesLeavesAtOnce(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "told")
	s.mu.Lock()
	s.told = false
	s.mu.Unlock()
	if _, err := c.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, make([]byte, 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // one byte is unread
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "answer" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%q was read, %v; expected the answer and a reset", got, err)
	}
}
