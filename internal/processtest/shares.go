package processtest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/weftnet/weft"
)

var shares = []Case{
	{"a share gives others its bytes and its rights, and nothing else", useShares, giveShares},
}

// shareBytes is the length of the region. Its second quarter is shared for reading, and its third
// quarter for writing.
const shareBytes = 64 << 10

func giveShares(ctx context.Context, p *weft.Process, other weft.Name) error {
	r, err := p.Alloc(shareBytes)
	if err != nil {
		return err
	}
	mem := r.Bytes()
	copy(mem, fill(1, shareBytes))
	const quarter = shareBytes / 4
	read, err := r.Share(quarter, quarter, weft.ReadOnly)
	if err != nil {
		return err
	}
	write, err := r.Share(2*quarter, quarter, weft.ReadWrite)
	if err != nil {
		return err
	}
	for what, bad := range map[string]func() error{
		"beyond the end":   func() error { _, err := r.Share(shareBytes-10, 11, weft.ReadOnly); return err },
		"before the start": func() error { _, err := r.Share(-1, 10, weft.ReadOnly); return err },
		"of nothing":       func() error { _, err := r.Share(10, 0, weft.ReadOnly); return err },
	} {
		if err := refused("a share "+what, bad(), weft.ErrRange); err != nil {
			return err
		}
	}
	_, err = r.Share(0, 1, weft.ReadOnly+1)
	if err := refused("a share with other rights", err, weft.ErrBadArgument); err != nil {
		return err
	}
	var both []byte
	for _, s := range []*weft.Share{read, write} {
		both, _ = s.Handle().AppendBinary(both)
	}
	if err := p.Send(ctx, other, 1, both); err != nil {
		return err
	}
	if _, err := p.Recv(ctx, other, 2, nil); err != nil { // the other process has written
		return err
	}
	want := fill(1, shareBytes)
	copy(want[2*quarter+100:], fill(7, 5000))
	if !bytes.Equal(mem, want) {
		return fmt.Errorf("the region has other bytes than were written into its share")
	}
	for range 2 {
		if err := write.Close(); err != nil {
			return err
		}
	}
	if err := p.Send(ctx, other, 1); err != nil {
		return err
	}
	if _, err := p.Recv(ctx, other, 2, nil); err != nil {
		return err
	}
	if err := r.Close(); err != nil { // this also ends the other share
		return err
	}
	if _, err := r.Share(0, 1, weft.ReadOnly); refused("", err, weft.ErrRegion) != nil {
		return fmt.Errorf("a share of a region that is closed: %v; expected %w", err, weft.ErrRegion)
	}
	next, err := p.Alloc(shareBytes)
	if err != nil {
		return err
	}
	if err := read.Close(); err != nil { // the new region may have taken its place
		return err
	}
	h, _ := next.Handle().MarshalBinary()
	if err := p.Send(ctx, other, 1, h); err != nil {
		return err
	}
	return finish(ctx, p, other)
}

func useShares(ctx context.Context, p *weft.Process, other weft.Name) error {
	var read, write, next weft.Handle
	b := make([]byte, 2*weft.HandleLen)
	if _, err := p.Recv(ctx, other, 1, b); err != nil {
		return err
	}
	if err := read.UnmarshalBinary(b[:weft.HandleLen]); err != nil {
		return err
	}
	if err := write.UnmarshalBinary(b[weft.HandleLen:]); err != nil {
		return err
	}
	const quarter = shareBytes / 4
	if read.Len() != quarter || write.Len() != quarter {
		return fmt.Errorf("shares of %d and %d bytes; expected %d", read.Len(), write.Len(), quarter)
	}
	got := make([]byte, quarter)
	if err := p.Get(ctx, read, 0, got); err != nil || !bytes.Equal(got, fill(1, shareBytes)[quarter:2*quarter]) {
		return fmt.Errorf("a GET of the share to be read: %w, or other bytes", err)
	}
	for what, err := range map[string]error{
		"a PUT": p.Put(ctx, read, 0, fill(1, 10)), "a long PUT": p.Put(ctx, read, 0, fill(1, quarter)),
	} {
		if err := refused(what+" to the share to be read", err, weft.ErrRegion); err != nil {
			return err
		}
	}
	for what, err := range map[string]error{
		"a PUT": p.Put(ctx, write, quarter-5, fill(1, 10)), "a GET": p.Get(ctx, write, quarter, got[:1]),
		"a GET of the other": p.Get(ctx, read, 1, got),
	} {
		if err := refused(what+" beyond the share", err, weft.ErrRange); err != nil {
			return err
		}
	}
	if err := p.Put(ctx, write, 100, fill(7, 5000)); err != nil {
		return err
	}
	if err := p.Send(ctx, other, 2); err != nil {
		return err
	}
	if _, err := p.Recv(ctx, other, 1, nil); err != nil {
		return err
	}
	if err := refused("a PUT to a share that is closed", p.Put(ctx, write, 0, fill(1, 10)),
		weft.ErrRegion); err != nil {
		return err
	}
	if err := p.Get(ctx, read, 0, got[:10]); err != nil {
		return fmt.Errorf("a GET of the share that is open: %w", err)
	}
	if err := p.Send(ctx, other, 2); err != nil {
		return err
	}
	if _, err := p.Recv(ctx, other, 1, b); err != nil {
		return err
	}
	if err := refused("a GET of a share whose region is closed", p.Get(ctx, read, 0, got[:10]),
		weft.ErrRegion); err != nil {
		return err
	}
	if err := next.UnmarshalBinary(b[:weft.HandleLen]); err != nil {
		return err
	}
	if err := p.Put(ctx, next, 0, fill(1, 10)); err != nil {
		return fmt.Errorf("a PUT into the region that came after it: %w", err)
	}
	return finish(ctx, p, other)
}
