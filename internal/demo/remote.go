package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// Tags of remote's messages and seeds.
const (
	tagHandle weft.Tag = 1<<33 + iota // a message of the owner with the handle of its region
	// A call: the guest has PUT its share, and the owner must check it.
	tagWritten
	seedOfOwner // seed of the owner's data in its region
	seedOfGuest // seed of the guests' data there
)

// remote makes every process open a region in which each other process has a share. The other
// process GETs the owner's data, PUTs different data in its place, GETs that again, and asks the
// owner to check it.
//
//	owner                                  guest
//	  │ fills the region                     │
//	  │ ─────────── handle ────────────────► │
//	  │ ◄──────────── GET ────────────────── │ compares
//	  │ ◄──────────── PUT, in pieces ─────── │
//	  │ ◄──────────── GET ────────────────── │ compares
//	  │ ◄─────────── Call: look ──────────── │
//	  │ compares; Reply ───────────────────► │
func (d *demo) remote(ctx context.Context, done *tally) error {
	var regions [hosts]*weft.Region
	for i, p := range d.procs {
		r, err := p.Alloc(d.Region)
		if err != nil {
			return err
		}
		defer r.Close()
		regions[i] = r
	}
	err := eachPair(ctx, func(ctx context.Context, owner, guest int) error {
		return load.Both(ctx,
			func(ctx context.Context) error { return d.own(ctx, owner, guest, regions[owner]) },
			func(ctx context.Context) error { return d.visit(ctx, owner, guest, done) })
	})
	for _, r := range regions {
		err = errors.Join(err, r.Close())
	}
	return err
}

// share returns the part of an owner's region that belongs to a guest.
func (d *demo) share(owner, guest int) (offset, n int) {
	n = d.Region / (hosts - 1)
	return (guest - owner + hosts - 1) % hosts * n, n
}

// remoteBytes returns the number of bytes that PUTs and GETs transfer.
func (d *demo) remoteBytes() int64 { return 3 * pairs * int64(d.Region/(hosts-1)) }

// own does the owner's part for one guest.
func (d *demo) own(ctx context.Context, owner, guest int, r *weft.Region) error {
	p := d.procs[owner]
	offset, n := d.share(owner, guest)
	mine := r.Bytes()[offset : offset+n]
	load.Fill(mine, d.seed(owner, guest, seedOfOwner))
	h, err := r.Handle().MarshalBinary()
	if err != nil {
		return err
	}
	if err := p.Send(ctx, name(guest), tagHandle, h); err != nil {
		return err
	}
	m, err := p.Recv(ctx, name(guest), tagWritten, nil)
	if err != nil {
		return err
	}
	wrong := load.Check(mine, d.seed(guest, owner, seedOfGuest))
	if wrong != nil {
		wrong = fmt.Errorf("the owner finds in its memory: %w", wrong)
	}
	return errors.Join(wrong, p.Reply(ctx, m))
}

// visit does the guest's part.
func (d *demo) visit(ctx context.Context, owner, guest int, done *tally) error {
	p := d.procs[guest]
	b := make([]byte, weft.HandleLen)
	if _, err := p.Recv(ctx, name(owner), tagHandle, b); err != nil {
		return err
	}
	var h weft.Handle
	if err := h.UnmarshalBinary(b); err != nil {
		return err
	}
	offset, n := d.share(owner, guest)
	buf := make([]byte, n)
	get := func(seed uint64) error {
		clear(buf)
		if err := p.Get(ctx, h, offset, buf); err != nil {
			return err
		}
		if err := load.Check(buf, seed); err != nil {
			return fmt.Errorf("GET: %w", err)
		}
		done.add(n, 1)
		return nil
	}
	if err := get(d.seed(owner, guest, seedOfOwner)); err != nil {
		return err
	}
	if err := d.putPieces(ctx, p, h, offset, n, d.seed(guest, owner, seedOfGuest), done); err != nil {
		return err
	}
	if err := get(d.seed(guest, owner, seedOfGuest)); err != nil {
		return err
	}
	_, err := p.Peer(name(owner)).Call(ctx, tagWritten, nil, nil)
	return err
}

// putPieces writes n bytes in pieces, each twice as long as the one before.
func (d *demo) putPieces(ctx context.Context, p *weft.Process, h weft.Handle, offset, n int, seed uint64,
	done *tally) error {
	b := make([]byte, n)
	load.Fill(b, seed)
	for at, piece := 0, 1; at < n; at, piece = at+piece, 2*piece {
		end := min(at+piece, n)
		if err := p.Put(ctx, h, offset+at, b[at:end]); err != nil {
			return err
		}
		done.add(end-at, 1)
	}
	return nil
}
