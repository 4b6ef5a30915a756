package rel

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// On a plain link, a session drops its frames if they come from another address than the peer's:
// an eavesdropper could send such frames, and move the session to itself. But the owner should
// know why the session is silent. So the newest such frame, if its tag has the session's cookie,
// shows the address from which the peer seems to send. After one such frame, the next is looked
// at ProbeEvery later. An answer to a Hello is such a frame, too: a NIC may answer from another
// address than the one that was called.

// ElsewhereError is an ErrUnreachable: the peer's frames came from another address than its own,
// and were dropped.
type ElsewhereError struct {
	Addr netip.AddrPort // address at which the peer was called
	From netip.AddrPort // address from which its frames came
}

// Error implements error.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%v: its frames come from another address, %v, than that at which it is called, %v",
		ErrUnreachable, e.From, e.Addr)
}

// Unwrap makes the error an ErrUnreachable.
func (e *ElsewhereError) Unwrap() error { return ErrUnreachable }

// Elsewhere returns the other address from which frames of the peer's last session came and were
// dropped; it is invalid if there is none.
func (e *Endpoint) Elsewhere() netip.AddrPort { return e.elsewhere }

// notesElsewhere examines a frame of s that came from another address than the peer's, and is
// dropped.
func (m *Module) notesElsewhere(now clock.Time, from netip.AddrPort, s *session, o wire.Outer, frame []byte) {
	due := s.elsewhereAt == 0 || now.Sub(s.elsewhereAt) >= m.cfg.ProbeEvery
	if !due || s.sealed != nil || s.packets.tag == 0 || o.Counter <= s.replay.top || o.Flags != s.packets.expects {
		return
	}
	if s.packets.guard.peek(o, frame) == nil {
		return
	}
	s.elsewhereAt, s.endpoint.elsewhere = now, from
}

// silence returns the error of a session whose peer is silent.
func (e *Endpoint) silence() error {
	if e.elsewhere.IsValid() {
		return &ElsewhereError{Addr: e.addr, From: e.elsewhere}
	}
	return ErrUnreachable
}
