package rel

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/wire"
)

// On a plain link frames of a session that come from another address than the peer's are dropped:
// whoever has seen a frame could send its like, and move the session to itself. But their owner
// should know why the session is silent. So the newest such frame, if its tag has the session's
// cookie, tells the address from which the peer seems to send. After one has told, the next is looked
// at ProbeEvery later. An answer to a Hello is such a frame, too: a NIC may answer from another
// address than the one that was called.

// ElsewhereError is an ErrUnreachable: the peer's frames came from another address than its own, and
// were dropped.
type ElsewhereError struct {
	Addr netip.AddrPort // where the peer was called
	From netip.AddrPort // where its frames came from
}

// Error implements error.
func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%v: its frames come from another address, %v, than that at which it is called, %v", ErrUnreachable, e.From, e.Addr)
}

// Unwrap makes the error an ErrUnreachable.
func (e *ElsewhereError) Unwrap() error { return ErrUnreachable }

// Elsewhere is the other address from which frames of the peer's last session came that were
// dropped; invalid if there is none.
func (e *Endpoint) Elsewhere() netip.AddrPort { return e.elsewhere }

// notesElsewhere looks at a frame of s that has come from another address than the peer's, and is
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

// silence is the error of a session whose peer is silent.
func (e *Endpoint) silence() error {
	if e.elsewhere.IsValid() {
		return &ElsewhereError{Addr: e.addr, From: e.elsewhere}
	}
	return ErrUnreachable
}
