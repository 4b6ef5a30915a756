package rel

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/weftnet/weft/internal/wire"
)

// Session returns a number that names the open session, for third parties that carry data with a
// meaning only within it; 0 without one. Both ends get the same number, from the sequence
// numbers that they have drawn for the session. The next session of the two gets another one.
func (e *Endpoint) Session() uint32 {
	s := e.live
	if s == nil {
		return 0
	}
	own := uint32(s.first[wire.Command]) ^ bits.RotateLeft32(uint32(s.first[wire.Data]), 16)
	peer := uint32(s.peer.FirstCommand) ^ bits.RotateLeft32(uint32(s.peer.FirstData), 16)
	return max(own^peer, 1)
}

// relayKey is the key of a session's relayed messages. It is derived once, when it is first needed.
type relayKey struct {
	key     [32]byte
	derived bool
}

// relayLabel makes the key of relayed messages differ from other keys of the same secret.
const relayLabel = "weft relay"

// RelayKey returns the key for the MACs of messages that other NICs carry between this NIC and the
// peer. Both ends of the open session derive the same key. The MAC's input, not the key, tells the
// directions apart. Without a session ok is false.
func (e *Endpoint) RelayKey() (key [32]byte, ok bool) {
	s := e.live
	if s == nil {
		return key, false
	}
	if k := &s.relayKey; !k.derived {
		b, err := hkdf.Key(sha256.New, s.relaySecret(), nil, relayLabel, len(k.key))
		if err != nil {
			panic("rel: HKDF refuses a key of 32 bytes: " + err.Error())
		}
		k.key, k.derived = [32]byte(b), true
	}
	return s.relayKey.key, true
}

// relaySecret returns a secret that both ends of s know and a NIC that relays does not. With
// Security it comes from the handshake. On a plain link it is the cookies and the first sequence
// numbers, those of the lower NIC id first; a NIC that reads the frames of the handshake learns
// them.
func (s *session) relaySecret() []byte {
	if s.endpoint.m.security != nil {
		return s.relay[:]
	}
	var b [32]byte
	own, peer := b[:16], b[16:]
	if s.endpoint.m.cfg.NIC > s.peer.NIC {
		own, peer = peer, own
	}
	put := func(b []byte, cookie uint64, command, data wire.Seq) {
		binary.LittleEndian.PutUint64(b, cookie)
		binary.LittleEndian.PutUint32(b[8:], uint32(command))
		binary.LittleEndian.PutUint32(b[12:], uint32(data))
	}
	put(own, s.packets.cookies.ours, s.first[wire.Command], s.first[wire.Data])
	put(peer, s.peer.Cookie, s.peer.FirstCommand, s.peer.FirstData)
	return b[:]
}
