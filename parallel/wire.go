package parallel

import "context"

// A wire carries messages between the ranks of a machine, in order for each pair of ranks. One
// goroutine at a time uses a wire.
//
//	Machine ── post ──► wire ──► … ──► wire ── next ──► Machine
type wire interface {
	rank() int
	size() int

	// post begins to send a message of a header and data. The wire copies the header, but the data
	// must not change until flush.
	post(ctx context.Context, to int, head *[headerLen]byte, data []byte) error

	// next waits for a message. The message is valid until the next call. If a rank is gone, next
	// returns a *RankError without an operation, unless last is true: then it still waits for messages.
	next(ctx context.Context, last bool) ([]byte, error)

	// flush waits until the data of the posts of an operation may change. It fails if a rank is gone. It
	// receives nothing, so a long post ends only when the other rank receives it.
	flush(ctx context.Context, seq uint64) error

	// abandon tells the other ranks that this rank takes part no more, unless the end is orderly. A
	// shrink or a leave follows. A second call does nothing.
	abandon(ctx context.Context, orderly bool) error

	// leave abandons the other ranks and closes the wire. With an orderly end, all ranks call it.
	leave(ctx context.Context, orderly bool) error

	// shrink returns a wire of the ranks that are left. All of them call it.
	shrink(ctx context.Context) (wire, uint32, error)
}
