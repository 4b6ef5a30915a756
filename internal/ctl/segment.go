package ctl

import (
	"context"
	"errors"
)

// Share makes the segment with a number at the daemon, with bytes bytes of data, or shares the
// existing one. It maps the data, and the locks and flags that follow it. leave releases the
// segment; its memory may not be used afterwards.
func (a *Attachment) Share(ctx context.Context, id uint32, bytes int) (mem []byte,
	leave func(context.Context) error, err error) {
	r, fds, err := a.conn.call(ctx, &Request{Op: OpShare, Segment: &SharedSegment{ID: id, Bytes: int64(bytes)}}, 1)
	if err != nil {
		return nil, nil, a.explain(err)
	}
	defer closeAll(fds)
	unshare := func(ctx context.Context) error {
		_, _, err := a.conn.call(ctx, &Request{Op: OpUnshare, Segment: &SharedSegment{ID: id}}, 0)
		if errors.Is(err, ErrNICGone) || errors.Is(err, ErrClosed) {
			err = nil // it has gone with the process, or with the NIC
		}
		return err
	}
	if r.Segment == nil || r.Segment.Bytes < int64(bytes) {
		return nil, nil, errors.Join(errors.New("the daemon's reply to \"share\" lacks the segment"), unshare(ctx))
	}
	if mem, err = mapBytes(fds[0], int(r.Segment.Bytes), true); err != nil {
		return nil, nil, errors.Join(err, unshare(ctx))
	}
	return mem, func(ctx context.Context) error { return errors.Join(unshare(ctx), unmapMemory(mem)) }, nil
}
