package stream

import (
	"encoding/binary"
	"io"
	"testing"
)

// Bytes of the peer may arrive just as a stream is closed. From then on the stream's number is
// unknown here. The peer must learn of the end before it gets the refusal, even if both messages
// are sent together. So the peer reads to the end.
func TestTheEndOfAStreamIsToldBeforeBytesThatCrossItAreRefused(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "crossed")
	h := s.h
	s.mu.Lock()
	s.state, s.duties, s.owed = stateClosed, s.duties|dutyClose, true // as Close leaves it
	s.mu.Unlock()
	h.forget(s)
	h.owed.Lock()
	h.strays = append(h.strays, stray{client.Name(), tagOf(kindReset, c.number), binary.LittleEndian.AppendUint32(nil, s.number)})
	h.owing = append(h.owing, s)
	h.owed.Unlock()
	h.owes.Open()
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the peer of a stream that was closed reads %v; expected its end", err)
	}
}
