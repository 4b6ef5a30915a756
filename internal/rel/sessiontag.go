package rel

import (
	"math/bits"

	"github.com/weftnet/weft/internal/wire"
)

// Session names the open session, for third parties that carry what means something only within it; 0 without one. Both
// ends name it alike, from the sequence numbers that they have drawn for it, and the next session of the two otherwise.
func (e *Endpoint) Session() uint32 {
	s := e.live
	if s == nil {
		return 0
	}
	own := uint32(s.first[wire.Command]) ^ bits.RotateLeft32(uint32(s.first[wire.Data]), 16)
	peer := uint32(s.peer.FirstCommand) ^ bits.RotateLeft32(uint32(s.peer.FirstData), 16)
	return max(own^peer, 1)
}
