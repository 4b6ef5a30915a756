package rel

import "github.com/weftnet/weft/internal/wire"

// A link that hands the kernel frames of one length together ends a batch with a shorter one. So
// a message of a few frames is cut evenly, and its last frame is filled up:
//
//	longest pieces  ├header┤├─── payload ───┤ ├header┤├─── payload ───┤ ├header┤├─ payload ─┤
//	                a batch ends here
//	even pieces     ├header┤├── payload ──┤   ├header┤├── payload ──┤   ├Void┤├header┤├ payload ┤
//	                the next message goes along
//
// Before, each message of 4 KiB was a batch of three frames.

// EvenPieceLen returns how many payload bytes each piece of a message of n bytes carries behind
// the header of type t, the last perhaps fewer, if all frames are to have one length: see
// Fragment.Piece. The number of pieces stays the least possible.
func (e *Endpoint) EvenPieceLen(t wire.Type, n int) int { return evenPiece(n, e.PieceLen(t)) }

func evenPiece(n, most int) int {
	pieces := (n + most - 1) / most
	if pieces < 2 {
		return most
	}
	piece := (n + pieces - 1) / pieces
	// A Void is no shorter than wire.RecordLen.
	for lacks := piece*pieces - n; lacks > 0 && lacks < wire.RecordLen; lacks += pieces {
		piece++
	}
	return min(piece, most)
}

// filler returns how many bytes of a Void go before the next piece, of n bytes, so that its
// frame is as long as those of the pieces before it, which have each bytes. It returns 0 if it
// is not the last piece, or if too few bytes are lacking.
func (f *Fragment) filler(n, each int) int {
	lacks := each - n
	if each != f.Piece || f.Next == 0 || f.Next+uint64(n) < f.Length || lacks < wire.RecordLen {
		return 0
	}
	return lacks
}
