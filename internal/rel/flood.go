package rel

import (
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// cookieAnswer is a Cookie that is owed to the sender of a Hello.
type cookieAnswer struct {
	to     netip.AddrPort
	from   netip.Addr
	index  uint32
	fabric int
	cookie wire.Cookie
}

// askForCookie answers a Hello by a Cookie. A NIC under load works on Hellos only from addresses
// that demonstrably receive.
func (m *Module) askForCookie(now clock.Time, from netip.AddrPort, index uint32, frame []byte, fabric int) {
	m.stats.HelloReceives++
	y := m.security
	if len(frame) < wire.HandshakeLeast-wire.HandshakeHead+wire.CookieLen {
		return // its sender would get more than it sent
	}
	if len(y.cookies) < maxRefusals {
		y.cookies = append(y.cookies, cookieAnswer{from, m.reached(), index, fabric,
			y.gate.Answer(now, frame, fabric, from)})
	}
}

// sendCookies sends the Cookies that are owed.
func (m *Module) sendCookies(out Frames) (sent int) {
	y := m.security
	for i := range y.cookies {
		a := &y.cookies[i]
		f := &signed{packets: &m.hellos, kind: wire.KindCookie, index: a.index, to: a.to, from: a.from,
			fabric: a.fabric}
		if m.send(f, func(b []byte) int { a.cookie.Put(b); return wire.CookieLen }, out) == nil {
			break
		}
		m.stats.CookieSends++
		sent++
	}
	y.cookies = y.cookies[:0]
	return sent
}

// receiveCookie takes the answer of a NIC under load to our Hello: the next Hello leaves at
// once, with the cookie.
func (m *Module) receiveCookie(_ clock.Time, from netip.AddrPort, o wire.Outer, body []byte, fabric int) {
	c, err := wire.ParseCookie(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	s := m.sessions.find(o.Index)
	if s == nil || s.shake == nil || !s.own || from != s.addr || fabric != s.shake.fabric || s.shake.tries == 0 {
		m.stats.NoSession++
		return
	}
	k := s.shake
	cookie, ok := m.security.gate.Open(&c, fabric, k.mac1[:])
	if !ok {
		m.stats.Handshakes++
		return
	}
	m.stats.HelloReceives++
	if k.cookie == nil || *k.cookie != cookie {
		k.cookie = &cookie
		s.endpoint.owe(dutyHello)
	}
}

// load counts the handshakes that a NIC has worked on recently.
type load struct {
	since clock.Time
	n     int
	// The handshakes of each host that proved its address, since the load became heavy.
	proved map[netip.Prefix]int
}

// heavy reports whether senders have to prove their addresses.
func (l *load) heavy(now clock.Time) bool {
	l.pass(now)
	return l.n >= limits.HandshakesUnproved
}

// greedy counts one more handshake of an address that was proved, and reports whether its host
// has made too many. A host may have many IPv6 addresses of one prefix.
func (l *load) greedy(from netip.AddrPort) bool {
	addr, bits := from.Addr().Unmap(), 64
	if addr.Is4() {
		bits = 32
	}
	host, err := addr.Prefix(bits)
	if err != nil || l.proved[host] >= limits.HandshakesOfAddress || len(l.proved) > limits.HandshakesAtMost {
		return true
	}
	if l.proved == nil {
		l.proved = make(map[netip.Prefix]int)
	}
	l.proved[host]++
	return false
}

// spent counts one more handshake, and reports whether there have been too many.
func (l *load) spent(now clock.Time) bool {
	l.pass(now)
	l.n++
	return l.n > limits.HandshakesAtMost
}

func (l *load) pass(now clock.Time) {
	if now.Sub(l.since) >= limits.HandshakeWindow {
		l.since, l.n = now, 0
		clear(l.proved)
	}
}
