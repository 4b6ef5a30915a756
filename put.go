package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Put writes the concatenation of parts into the region that h names, from offset on. The owner of
// the region takes no part. Put returns when the bytes are in place. It fails with [ErrRegion] if
// the handle names no open region or does not permit writing, and with [ErrRange] if the bytes
// would go beyond the region's end. [Peer.Put] also checks whose region it is.
func (p *Process) Put(ctx context.Context, h Handle, offset int, parts ...[]byte) error {
	if err := ended(ctx, "put"); err != nil {
		return err
	}
	if offset < 0 {
		return badOffset("put", offset)
	}
	return opError(p.p.Put(ctx, h.proc(), uint64(offset), parts...))
}

// Get reads len(buf) bytes of the region that h names, from offset on. The owner of the region
// takes no part. It fails as [Process.Put] does.
func (p *Process) Get(ctx context.Context, h Handle, offset int, buf []byte) error {
	if err := ended(ctx, "get"); err != nil {
		return err
	}
	if offset < 0 {
		return badOffset("get", offset)
	}
	return opError(p.p.Get(ctx, h.proc(), uint64(offset), buf))
}

func (h Handle) proc() proc.Handle {
	return proc.Handle{
		NIC: uint64(h.owner.NIC), Slot: h.owner.Slot, Gen: h.owner.Generation, Region: h.region, Key: h.key,
	}
}

func badOffset(op string, offset int) error {
	return &OpError{Op: op, Err: fmt.Errorf("%w: offset %d; expected 0 or more", ErrBadArgument, offset)}
}
