package weft

import "github.com/weftnet/weft/internal/vni"

// Tag is a number of at most 48 bits. A receive selects messages by their tags. The sender and the
// receiver decide what each tag means.
type Tag uint64

const (
	// MaxTag is the largest tag, 0xffff_ffff_ffff. The 16 bits above hold the number of the [Port].
	MaxTag Tag = vni.TagMask

	// In a receive, AnyTag matches every tag of the receive's port. No message can be sent with
	// AnyTag.
	AnyTag Tag = 1<<64 - 1
)
