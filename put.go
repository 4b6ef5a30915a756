package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Put writes the concatenation of the parts into the region that h names, from the given offset on.
// The owner of the region takes no action. Put returns when the bytes are in the region.
//
// Put fails with [ErrRegion] if h names no open region, or does not permit writing. It fails with
// [ErrRange] if the bytes would extend beyond the end of the region. [Peer.Put] also checks which
// process owns the region.
func (p *Process) Put(ctx context.Context, h Handle, offset int, parts ...[]byte) error {
	if err := h.ended(ctx, "put"); err != nil {
		return err
	}
	if offset < 0 {
		return badOffset("put", offset)
	}
	return opError(p.p.Put(ctx, h.proc(), uint64(offset), parts...))
}

// Get reads len(buf) bytes into buf from the region that h names, from the given offset on. The
// owner of the region takes no action. Get fails with [ErrRegion] if h names no open region, and
// with [ErrRange] if the bytes would extend beyond the end of the region.
func (p *Process) Get(ctx context.Context, h Handle, offset int, buf []byte) error {
	if err := h.ended(ctx, "get"); err != nil {
		return err
	}
	if offset < 0 {
		return badOffset("get", offset)
	}
	return opError(p.p.Get(ctx, h.proc(), uint64(offset), buf))
}

// ended returns an error that names the region's owner if ctx is done.
func (h Handle) ended(ctx context.Context, op string) error {
	return Peer{at: h.owner}.ended(ctx, op)
}

func (h Handle) proc() proc.Handle {
	return proc.Handle{
		NIC: uint64(h.owner.NIC), Slot: h.owner.Slot, Gen: h.owner.Generation, Region: h.region, Key: h.key.value(),
	}
}

func badOffset(op string, offset int) error {
	return &OpError{Op: op, Err: fmt.Errorf("%w: offset %d; expected 0 or more", ErrBadArgument, offset)}
}
