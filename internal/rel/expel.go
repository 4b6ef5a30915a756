package rel

import "github.com/weftnet/weft/internal/clock"

// Expel ends the session with a peer that is no longer trusted, and any attempt at one: the peer
// goes Down with ErrIdentity. A later attempt of either side begins with a handshake, which asks
// Handler.Vouch.
func (m *Module) Expel(now clock.Time, e *Endpoint) {
	m.settle()
	if e.live != nil || e.attempt.wanted {
		m.ends(now, e, ErrIdentity)
	}
}
