package rel

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
)

// An address belongs to one NIC at a time. A program that is killed and started again often binds
// the old address under a new id, because it has no key file. The other NICs learn so when the
// session with the new NIC opens:
//
//	A, killed     B, at the address of A              C
//	│◄═══════ session ═══════════════════════════════►│  A is up
//	✗             │ Hello                             │
//	              │ ─────────────────────────────────►│  half open; A is still up
//	              │                          HelloAck │
//	              │ ◄─────────────────────────────────│
//	              │ a frame of the session            │
//	              │ ─────────────────────────────────►│  A goes down: ErrDisplaced. B is up
//
// A Hello with a forged source displaces nothing. Only the host that received the answer at that
// address knows the index and the cookie of the session, or the keys if the session is sealed.
// So another host cannot displace a NIC. A NIC may be displaced by mistake, because a translator
// gave its port to another NIC. It then opens a new session from its new address.

// displace ends the session with the NIC that was at the address of s before. The map byAddr may
// name the new NIC already, because the owner has opened it there.
func (m *Module) displace(now clock.Time, s *session) {
	i := slices.IndexFunc(m.endpoints, func(e *Endpoint) bool {
		return e != s.endpoint && e.live != nil && e.live.addr == s.addr
	})
	if i >= 0 {
		m.ends(now, m.endpoints[i], ErrDisplaced)
	}
}
