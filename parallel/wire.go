package parallel

import (
	"context"
	"errors"
)

// post returns errWireFull if a rank must receive before it sends more. If two ranks only waited
// for their sends, they would wait for each other.
var errWireFull = errors.New("too many messages in flight")

// A wire carries messages between the ranks of a machine, in order for each pair of ranks. One
// goroutine at a time uses a wire.
//
//	Machine ── post ──► wire ──► … ──► wire ── next ──► Machine
type wire interface {
	rank() int
	size() int

	// post begins to send a message of a header and data. The wire copies the header, but the data
	// must not change until flush. If too many messages are in flight, post fails with errWireFull.
	post(ctx context.Context, to int, head *[headerLen]byte, data []byte) error

	// next waits for a message, which is valid until the next call. After a post has failed with
	// errWireFull, next also returns soon without a message. If a rank is gone, next returns a
	// *RankError without an operation, unless last is true: then it still waits for messages.
	next(ctx context.Context, last bool) ([]byte, error)

	// flush waits until the data of the posts of an operation may change. It fails if a rank is
	// gone. It receives nothing, so a long post ends only when the other rank receives it.
	flush(ctx context.Context, seq uint64) error

	// abandon tells the other ranks that this rank no longer takes part, unless the end is
	// orderly. A shrink or a leave follows. A second call does nothing.
	abandon(ctx context.Context, orderly bool) error

	// leave abandons the other ranks and closes the wire. With an orderly end, all ranks call it.
	leave(ctx context.Context, orderly bool) error

	// shrink returns a wire of the remaining ranks, and the epoch of their machine. All of them
	// call it.
	shrink(ctx context.Context) (wire, uint32, error)
}
