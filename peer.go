package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Peer is another process, seen from a [Process] or a [Port]. [Process.Peer] makes one from a name,
// and [Process.PeerAt] from an address. A Peer is a small value: keep it, copy it, or make it anew
// for each call. It holds no connection and needs no Close.
//
// A Peer by name is the process that has the name at the moment of an operation. A Peer by address
// is one process in one life: after that process has ended, operations fail with [ErrProcessGone]
// or [ErrStaleGeneration], and a later process of the same name gets nothing. Both kinds make the
// same promises, and messages to one process keep their order across both kinds.
type Peer struct {
	p  *port
	k  *knownName // nil: the process at the address
	at Address
}

// Peer returns the process with a name. A malformed name makes each operation of the Peer fail with
// [ErrBadArgument]. Peer([AnyProcess]) receives from every process, and can send to none.
func (p *port) Peer(name Name) Peer {
	k := p.names.known(&name)
	if k == nil {
		k = p.names.learn(name)
	}
	return Peer{p: p, k: k}
}

// PeerAt returns the process with an address. [Message].Addr is the address of a sender, and
// [Process.WaitName] returns the address that belongs to a name.
func (p *port) PeerAt(a Address) Peer { return Peer{p: p, at: a} }

// Name returns the name of a Peer by name. For a Peer by address it returns [AnyProcess].
func (r Peer) Name() Name {
	if r.k == nil {
		return AnyProcess
	}
	return r.k.name
}

// String returns the name or, for a Peer by address, the address.
func (r Peer) String() string {
	if r.k == nil {
		return r.at.String()
	}
	return r.k.name.String()
}

// receiver checks where a message goes, and with which tag.
func (r Peer) receiver(op string, tag Tag) (d proc.Dest, word uint64, err error) {
	if r.p == nil {
		return d, 0, errNoPeer(op)
	}
	word, ok := r.p.word(tag)
	if !ok {
		return d, 0, r.p.badTag(op, tag)
	}
	if d, err = r.dest(op); err == nil && r.k != nil && !r.k.named {
		err = &OpError{Op: op, Err: fmt.Errorf("%w: AnyProcess is for receives; expected the name of a receiver",
			ErrBadArgument)}
	}
	return d, word, err
}

// dest returns the process as the NIC knows it. The zero Dest stands for any process.
func (r Peer) dest(op string) (proc.Dest, error) {
	switch {
	case r.k == nil:
		return r.at.dest(op)
	case r.k.bad != nil:
		return proc.Dest{}, &OpError{Op: op, Err: r.k.bad}
	}
	return r.k.dest, nil
}

func errNoPeer(op string) error {
	return &OpError{Op: op, Err: fmt.Errorf("%w: the zero Peer; expected one of Process.Peer or Process.PeerAt",
		ErrBadArgument)}
}

// Put writes the concatenation of parts into the peer's region that h names, as [Process.Put] does.
// It fails with [ErrBadArgument] if the region belongs to another process: a peer cannot redirect
// the write by sending the handle of a third process. If no process has the peer's name, Put waits
// until one has it or ctx ends.
func (r Peer) Put(ctx context.Context, h Handle, offset int, parts ...[]byte) error {
	if err := r.owns(ctx, "put", h); err != nil {
		return err
	}
	return r.p.of.Put(ctx, h, offset, parts...)
}

// Get reads len(buf) bytes of the peer's region that h names, as [Process.Get] does. It fails with
// [ErrBadArgument] if the region belongs to another process.
func (r Peer) Get(ctx context.Context, h Handle, offset int, buf []byte) error {
	if err := r.owns(ctx, "get", h); err != nil {
		return err
	}
	return r.p.of.Get(ctx, h, offset, buf)
}

// owns checks that a region is the peer's. It asks the NIC once for each process that gets the
// name.
func (r Peer) owns(ctx context.Context, op string, h Handle) error {
	switch {
	case r.p == nil:
		return errNoPeer(op)
	case r.p.closed.Load():
		return r.p.badTag(op, 0)
	case r.k == nil:
		if _, err := r.dest(op); err != nil {
			return err
		}
		return r.refuseUnless(op, h, r.at)
	case !r.k.named:
		_, _, err := r.receiver(op, 0)
		return err
	}
	if at := r.k.at.Load(); at != nil && *at == h.owner {
		return nil
	}
	at, err := r.p.of.waitName(ctx, op, r.k.name)
	if err != nil {
		return err
	}
	r.k.at.Store(&at)
	return r.refuseUnless(op, h, at)
}

func (r Peer) refuseUnless(op string, h Handle, at Address) error {
	if h.owner == at {
		return nil
	}
	return &OpError{Op: op, Peer: r.Name(), Addr: at,
		Err: fmt.Errorf("%w: the handle names a region of %v; expected one of this peer", ErrBadArgument, h.owner)}
}
