package seal

import (
	"crypto/subtle"
	"encoding/binary"
	"hash"
	"net/netip"
	"time"

	"golang.org/x/crypto/blake2s"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// A Gate stands before the handshake. mac1 limits the cost of a stranger's frame to less than a
// microsecond; a handshake costs many. A NIC with more Hellos than it can process asks their
// senders for mac2, which only an address that receives frames can make.
//
//	… body │ mac1: keyed by the fabric key │ mac2: keyed by a cookie, or zeros │
type Gate struct {
	keys    []gateKey
	secrets *secret.Source
	sum     [wire.MACLen]byte // a field, since a slice passed to an interface escapes
	number  [18]byte          // of an address; a field for the same reason

	// baked makes the cookies of addresses: those of the last CookieEvery, and those of the one
	// before.
	baked   [2]hash.Hash
	bakedAt clock.Time
}

// gateKey holds the values derived from one fabric key.
type gateKey struct {
	mac1   hash.Hash
	cookie [trust.KeyLen]byte // seals cookies
	psk    [trust.KeyLen]byte
}

// CookieEvery is how long the secret behind cookies is used. A cookie is valid for one to two
// times as long.
const CookieEvery = 2 * time.Minute

// Cookie proves that its owner receives what is sent to its address.
type Cookie [wire.MACLen]byte

// NewGate returns the gate of a NIC with the given fabric keys.
func NewGate(fabric []trust.FabricKey, secrets *secret.Source) *Gate {
	g := &Gate{secrets: secrets, bakedAt: clock.Never}
	g.Replace(fabric)
	return g
}

// Replace replaces the fabric keys. Indices then refer to the new keys. Cookies stay valid.
func (g *Gate) Replace(fabric []trust.FabricKey) {
	g.keys = nil
	for _, k := range fabric {
		mac1 := k.Derive(trust.LabelMAC1)
		g.keys = append(g.keys, gateKey{keyed(mac1[:]), k.Derive(trust.LabelCookie), k.Derive(trust.LabelPSK)})
	}
}

// keyed returns a MAC. BLAKE2s with a key is one, and takes half the time of HMAC-SHA256 for
// frames of this length.
func keyed(key []byte) hash.Hash {
	h, err := blake2s.New128(key)
	if err != nil {
		panic("seal: BLAKE2s refuses its key: " + err.Error())
	}
	return h
}

// Keys returns the number of fabric keys that the gate accepts.
func (g *Gate) Keys() int { return len(g.keys) }

// Psk returns the pre-shared key of handshakes under a fabric key.
func (g *Gate) Psk(key int) [trust.KeyLen]byte { return g.keys[key].psk }

// mac computes a MAC into g.sum.
func (g *Gate) mac(h hash.Hash, b []byte) []byte {
	h.Reset()
	h.Write(b)
	return h.Sum(g.sum[:0])
}

// Sign writes the MACs behind the first n bytes of a frame and returns its length. Without a
// cookie mac2 is zeros.
func (g *Gate) Sign(frame []byte, n, key int, cookie *Cookie) int {
	end := n + wire.MACLen
	copy(frame[n:end], g.mac(g.keys[key].mac1, frame[:n]))
	mac2 := frame[end : end+wire.MACLen]
	clear(mac2)
	if cookie != nil {
		copy(mac2, g.mac(keyed(cookie[:]), frame[:end]))
	}
	return end + wire.MACLen
}

// Verify checks mac1 of a frame. It returns the index of the matching fabric key, and the frame
// without its MACs.
func (g *Gate) Verify(frame []byte) (key int, rest []byte, ok bool) {
	if len(frame) < wire.HandshakeLeast {
		return 0, nil, false
	}
	n := len(frame) - 2*wire.MACLen
	for i := range g.keys {
		if subtle.ConstantTimeCompare(g.mac(g.keys[i].mac1, frame[:n]), frame[n:n+wire.MACLen]) == 1 {
			return i, frame[:n], true
		}
	}
	return 0, nil, false
}

// Mac1 returns the MAC that binds a cookie to the frame that it answers. The frame must be signed
// or verified.
func Mac1(frame []byte) []byte { return frame[len(frame)-2*wire.MACLen : len(frame)-wire.MACLen] }

// Proves reports whether mac2 of a frame proves that its sender receives at from.
func (g *Gate) Proves(now clock.Time, frame []byte, from netip.AddrPort) bool {
	g.bake(now)
	n := len(frame) - wire.MACLen
	for _, h := range g.baked {
		if h == nil {
			continue
		}
		c := g.cookie(h, from)
		if subtle.ConstantTimeCompare(g.mac(keyed(c[:]), frame[:n]), frame[n:]) == 1 {
			return true
		}
	}
	return false
}

// bake renews the secret behind cookies when its time is over.
func (g *Gate) bake(now clock.Time) {
	if g.bakedAt != clock.Never && now.Sub(g.bakedAt) < CookieEvery {
		return
	}
	var key [trust.KeyLen]byte
	g.secrets.Fill(secret.FloodCookie, key[:])
	if g.bakedAt == clock.Never || now.Sub(g.bakedAt) >= 2*CookieEvery {
		g.baked[0] = nil
	}
	g.baked[0], g.baked[1] = keyed(key[:]), g.baked[0]
	g.bakedAt = now
}

// cookie returns the cookie of an address.
func (g *Gate) cookie(h hash.Hash, addr netip.AddrPort) Cookie {
	ip := addr.Addr().As16()
	copy(g.number[:], ip[:])
	binary.LittleEndian.PutUint16(g.number[16:], addr.Port())
	return Cookie(g.mac(h, g.number[:]))
}

// Answer makes the answer to a Hello whose sender has to prove its address. The frame matches the
// fabric key.
func (g *Gate) Answer(now clock.Time, frame []byte, key int, from netip.AddrPort) (c wire.Cookie) {
	g.bake(now)
	cookie := g.cookie(g.baked[0], from)
	g.secrets.Fill(secret.FloodCookie, c.Nonce[:])
	a, err := chacha20poly1305.NewX(g.keys[key].cookie[:])
	if err != nil {
		panic("seal: XChaCha20-Poly1305 refuses its key: " + err.Error())
	}
	a.Seal(c.Sealed[:0], c.Nonce[:], cookie[:], Mac1(frame))
	return c
}

// Open returns the cookie of an answer to the Hello that had mac1 and matches the fabric key.
func (g *Gate) Open(c *wire.Cookie, key int, mac1 []byte) (cookie Cookie, ok bool) {
	a, err := chacha20poly1305.NewX(g.keys[key].cookie[:])
	if err != nil {
		panic("seal: XChaCha20-Poly1305 refuses its key: " + err.Error())
	}
	b, err := a.Open(nil, c.Nonce[:], c.Sealed[:], mac1)
	if err != nil {
		return cookie, false
	}
	return Cookie(b), true
}
