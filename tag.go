package weft

import "github.com/weftnet/weft/internal/vni"

// Tag is a number of at most 48 bits by which a receive chooses messages. The processes agree on
// its meaning.
type Tag uint64

const (
	// MaxTag is the largest tag, 0xffff_ffff_ffff. The NIC keeps the [Port] in the 16 bits above it.
	MaxTag Tag = vni.TagMask

	// AnyTag, in a receive, matches every tag of the port. No message can be sent with it.
	AnyTag Tag = 1<<64 - 1
)
