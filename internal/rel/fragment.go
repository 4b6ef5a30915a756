package rel

import "github.com/weftnet/weft/internal/wire"

// Fragment is anything the NIC control program wants sent that is not a short record: a long message, a PUT, the answer
// to a GET (USNIC-1). The owner fills it in, posts it piece by piece, and keeps its memory until Released.
type Fragment struct {
	Space  wire.Space // Data for large ones
	Type   wire.Type  // of its records: Chunk or Eager for many pieces; Frag or Put when one piece holds it whole
	ID     wire.FragmentID
	Parts  [][]byte // gather list of the payload, Length bytes in all (USNIC-25…27)
	Length uint64   // bytes
	Limit  uint64   // bytes that may be posted now: the permission; ≤ Length
	Next   uint64   // bytes posted so far
	Err    error    // set before Released
	Owner  any      // the owner's own

	// HeaderBuf[:HeaderLen] is the header of its records. Each piece gets a copy with its own length and, for Chunk and
	// Eager, ID and offset.
	HeaderBuf [64]byte
	HeaderLen int
}
