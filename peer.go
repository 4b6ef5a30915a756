package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Peer stands for another process. The methods of a Peer communicate with that process.
// [Process.Peer] makes a Peer from a name, and [Process.PeerAt] makes a Peer from an address. A
// Peer is a small value: keep it, copy it, or make a new one for each call. It holds no connection
// and needs no Close.
//
// If a Peer was made from a name, each operation uses the process that has the name at the time of
// the operation. If a Peer was made from an address, the Peer stands for one process only. After
// that process has ended, operations of the Peer fail with [ErrProcessGone] or
// [ErrStaleGeneration]. If the NIC of that process was closed too, they fail with [ErrUnreachable]
// after Config.UnreachableAfter. These operations never reach a later process with the same name.
//
// The promises are the same for both kinds of Peer. Messages to one process keep their order even
// if some are sent through a Peer made from a name, and others through a Peer made from an
// address.
type Peer struct {
	p  *port
	k  *knownName // nil: the Peer was made from an address
	at Address
}

// Peer returns a Peer for the process with the given name. If the name is malformed, each operation
// of the Peer fails with [ErrBadArgument]. Peer([AnyProcess]) can receive from every process, but
// cannot send.
func (p *port) Peer(name Name) Peer {
	return Peer{p: p, k: p.names.find(&name)}
}

// PeerAt returns a Peer for the process with the given address. [Message].Addr is the address of a
// sender, and [Process.WaitName] returns the address of the process that has a name.
func (p *port) PeerAt(addr Address) Peer { return Peer{p: p, at: addr} }

// Name returns the name from which the Peer was made. If the Peer was made from an address, Name
// returns [AnyProcess].
func (r Peer) Name() Name {
	if r.k == nil {
		return AnyProcess
	}
	return r.k.name
}

// String returns the name from which the Peer was made, or the address if the Peer was made from an
// address.
func (r Peer) String() string {
	if r.k == nil {
		return r.at.String()
	}
	return r.k.name.String()
}

// receiver checks the receiver and the tag of a message, and returns both as the NIC knows them.
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

// dest returns the peer as the NIC knows it. The zero Dest stands for any process.
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

// Alive asks the NIC of the peer whether the peer's process lives, and returns nil if it does. The
// NIC answers without the process, so a process that is stopped or busy is alive. Alive proves
// nothing about a NIC that lies.
//
// Alive fails with [ErrProcessGone] or [ErrStaleGeneration] if the process has ended, with
// [ErrNameUnknown] if no process has the peer's name, and with [ErrUnreachable] if the NIC is
// silent for Config.UnreachableAfter.
func (r Peer) Alive(ctx context.Context) error {
	if r.p == nil {
		return errNoPeer("ask")
	}
	if err := r.ended(ctx, "ask"); err != nil {
		return err
	}
	if r.p.closed.Load() || r.p.p.Closed() {
		return &OpError{Op: "ask", Peer: r.Name(), Addr: r.at, Err: ErrClosed}
	}
	d, err := r.dest("ask")
	if err != nil {
		return err
	}
	if r.k != nil {
		if !r.k.named {
			_, _, err := r.receiver("ask", 0)
			return err
		}
		if d, err = r.p.p.LookUp(d.Name); err != nil {
			return opError(err)
		}
	}
	return opError(r.p.p.Ask(ctx, d))
}

// Put writes the concatenation of the parts into a region of the peer. It is like [Process.Put],
// but it fails with [ErrBadArgument] if the region that h names belongs to another process. This
// check keeps a peer from redirecting the write with the handle of a third process. If no process
// has the peer's name, Put waits until a process has that name or ctx ends.
func (r Peer) Put(ctx context.Context, h Handle, offset int, parts ...[]byte) error {
	if err := r.ended(ctx, "put"); err != nil {
		return err
	}
	if err := r.owns(ctx, "put", h); err != nil {
		return err
	}
	return r.p.of.Put(ctx, h, offset, parts...)
}

// Get reads len(buf) bytes of a region of the peer. It is like [Process.Get], but it fails with
// [ErrBadArgument] if the region that h names belongs to another process.
func (r Peer) Get(ctx context.Context, h Handle, offset int, buf []byte) error {
	if err := r.ended(ctx, "get"); err != nil {
		return err
	}
	if err := r.owns(ctx, "get", h); err != nil {
		return err
	}
	return r.p.of.Get(ctx, h, offset, buf)
}

// StartPut begins a [Peer.Put] and does not wait for its end. The parts must not change until op is
// done. If the Peer was made from a name, StartPut may ask the NIC which process has the name.
// StartPut fails with [ErrNameUnknown] if no process has the name.
func (r Peer) StartPut(op *Op, h Handle, offset int, parts ...[]byte) error {
	if err := r.ownsNow("put", h); err != nil {
		return err
	}
	return r.p.of.StartPut(op, h, offset, parts...)
}

// StartGet begins a [Peer.Get] and does not wait for its end. The NIC owns buf until op is done.
// StartGet checks the handle in the same way as [Peer.StartPut].
func (r Peer) StartGet(op *Op, h Handle, offset int, buf []byte) error {
	if err := r.ownsNow("get", h); err != nil {
		return err
	}
	return r.p.of.StartGet(op, h, offset, buf)
}

// owns checks that a region belongs to the peer. It asks the NIC once for each process that gets
// the name.
func (r Peer) owns(ctx context.Context, op string, h Handle) error {
	known, err := r.ownsAsFarAsKnown(op, h)
	if known || err != nil {
		return err
	}
	at, err := r.p.of.waitName(ctx, op, r.k.name)
	if err != nil {
		return err
	}
	r.k.at.Store(&at)
	return r.refuseUnless(op, h, at)
}

// ownsNow is like owns, but does not wait for a process to have the name.
func (r Peer) ownsNow(op string, h Handle) error {
	known, err := r.ownsAsFarAsKnown(op, h)
	if known || err != nil {
		return err
	}
	d, err := r.p.p.LookUp(r.k.dest.Name)
	if err != nil {
		return opError(err)
	}
	at := Address{NICID(d.NIC), d.Slot, d.Gen}
	r.k.at.Store(&at)
	return r.refuseUnless(op, h, at)
}

// ownsAsFarAsKnown is like owns, but does not ask the NIC. known is false if only the NIC can tell
// which process has the name.
func (r Peer) ownsAsFarAsKnown(op string, h Handle) (known bool, err error) {
	switch {
	case r.p == nil:
		return false, errNoPeer(op)
	case r.p.closed.Load() || r.p.p.Closed():
		return false, &OpError{Op: op, Peer: r.Name(), Addr: r.at, Err: ErrClosed}
	case r.k == nil:
		if _, err := r.dest(op); err != nil {
			return false, err
		}
		return true, r.refuseUnless(op, h, r.at)
	case !r.k.named:
		_, _, err := r.receiver(op, 0)
		return false, err
	}
	at := r.k.at.Load()
	return at != nil && *at == h.owner, nil
}

func (r Peer) refuseUnless(op string, h Handle, at Address) error {
	if h.owner == at {
		return nil
	}
	return &OpError{Op: op, Peer: r.Name(), Addr: at,
		Err: fmt.Errorf("%w: the handle names a region of %v; expected one of this peer", ErrBadArgument, h.owner)}
}
