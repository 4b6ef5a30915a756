package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/weftnet/weft"
)

// The peer of a bare stream, the peer's number of the stream, and the room that the peer gives.
var (
	barePeer = weft.Address{NIC: 9, Slot: 3, Generation: 5}
	bareName = weft.Name{App: "peer"}
)

const (
	bareNumber = 77
	bareWindow = 1000
)

// bareHost returns a host without goroutines and without a port. Its context is done, so no call
// waits.
func bareHost(t *testing.T) *host {
	t.Helper()
	p, _ := onSwitch(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &host{
		p: p, ctx: ctx, stop: cancel, owes: p.Runtime().NewGate(), conns: map[uint32]*Conn{}, accepted: map[peerKey]*Conn{},
		listeners: map[string]*Listener{}, questions: map[weft.Address]bool{},
	}
	h.pump = pump{h: h, free: p.Runtime().NewGate()}
	return h
}

// bare returns an open stream that this end accepted. Its peer has sent nothing yet.
func (h *host) bare() *Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.newConn(Addr{Process: h.p.Name(), Service: "x"}, Addr{Process: bareName, Service: "#77"}, newConfig(0, 0))
	c.opened(barePeer, &message{kind: kindOpen, sender: bareNumber, offset: bareWindow})
	h.accepted[peerKey{barePeer, bareNumber}] = c
	return c
}

// takes passes a message of the peer to the stream, as the pump does.
func (c *Conn) takes(m message) bool {
	c.h.pump.settle()
	m.number, m.sender = c.number, bareNumber
	return c.take(bareName, barePeer, &m)
}

// allDue returns the kinds of the messages that the stream owes, and forgets them.
func (c *Conn) allDue() (kinds []kind) {
	for {
		tag, _, ok := c.due()
		if !ok {
			return kinds
		}
		kinds = append(kinds, kind(tag>>kindShift))
	}
}

// bytes returns the bytes of a message, as a peer sends them.
func (m *message) bytes() []byte {
	switch m.kind {
	case kindReset:
		return binary.LittleEndian.AppendUint32(nil, m.sender)
	case kindRefuse:
		return append(binary.LittleEndian.AppendUint32(nil, m.sender), byte(m.why))
	case kindWindow, kindPing, kindPong:
		return state(new([stateBytes]byte), m.sender, m.offset, m.sent, m.end)
	}
	return append(head(new([headBytes]byte), m.sender, m.offset), m.rest...)
}

// isOr reports whether err is the error want. If want is nil, it reports whether err is nil.
func isOr(err, want error) bool { return errors.Is(err, want) && (want != nil || err == nil) }
