package proc

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Put writes the concatenation of parts into a region of another process, from offset on
// (USNIC-31). It returns when the bytes are there. ErrRegion, ErrKey: the handle does not belong
// to an open region. ErrRange: the bytes do not fit into the region.
func (p *Process) Put(ctx context.Context, h Handle, offset uint64, parts ...[]byte) error {
	r := request{waits: true}
	parts, err := p.putRequest(&r, h, offset, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, parts)
}

// Get reads len(buf) bytes of a region of another process, from offset on (USNIC-31). Its errors
// are those of Put.
func (p *Process) Get(ctx context.Context, h Handle, offset uint64, buf []byte) error {
	r := request{waits: true}
	if err := r.getRequest(h, offset, buf); err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, nil)
}

// StartPut starts a Put. The parts must stay unchanged until the operation is done.
func (p *Process) StartPut(h Handle, offset uint64, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartPutInto(o, h, offset, parts...) })
}

// StartPutInto is StartPut with an Op, like StartSendInto.
func (p *Process) StartPutInto(o *Op, h Handle, offset uint64, parts ...[]byte) error {
	var r request
	parts, err := p.putRequest(&r, h, offset, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.startOp(o, &r, parts)
}

// StartGet starts a Get. The caller must not use buf until the operation is done.
func (p *Process) StartGet(h Handle, offset uint64, buf []byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartGetInto(o, h, offset, buf) })
}

// StartGetInto is StartGet with an Op, like StartSendInto.
func (p *Process) StartGetInto(o *Op, h Handle, offset uint64, buf []byte) error {
	var r request
	if err := r.getRequest(h, offset, buf); err != nil {
		return r.fail(err)
	}
	return p.startOp(o, &r, nil)
}

// Ask asks the NIC of another process whether that process lives, and returns nil if it does. The
// process itself takes no part. ErrProcessGone, ErrStaleGeneration: it has ended. ErrUnreachable:
// its NIC does not answer.
func (p *Process) Ask(ctx context.Context, of Dest) error {
	r := request{waits: true}
	err := r.getRequest(Handle{NIC: of.NIC, Slot: of.Slot, Gen: of.Gen}, 0, nil)
	r.what = "ask"
	if err != nil {
		return r.fail(err)
	}
	err = p.run(ctx, &r, nil)
	if errors.Is(err, ErrRegion) { // a NIC of an earlier version finds the process, but no region
		return nil
	}
	return err
}

func (p *Process) putRequest(r *request, h Handle, offset uint64, parts [][]byte) ([][]byte, error) {
	r.what, r.code = "put", vni.CodePut
	if err := r.remote(h, offset); err != nil {
		return nil, err
	}
	return p.gather(r, parts)
}

func (r *request) getRequest(h Handle, offset uint64, buf []byte) error {
	r.what, r.code = "get", vni.CodeGet
	if err := r.remote(h, offset); err != nil {
		return err
	}
	r.to(buf)
	return nil
}

func (r *request) remote(h Handle, offset uint64) error {
	r.with = Dest{NIC: h.NIC, Slot: h.Slot, Gen: h.Gen}
	if h.NIC == 0 {
		return errNoHandle
	}
	// No region is so long, and the NIC would consider the context malformed.
	if offset > limits.MaxRegion {
		return ErrRange
	}
	r.send.Remote = vni.Remote{NIC: h.NIC, Slot: h.Slot, Gen: h.Gen, Region: h.Region, Key: h.Key, Offset: offset}
	return nil
}

var errNoHandle = fmt.Errorf("%w: the handle is empty", ErrBadArgument)

// Resolve waits until a live process has a name, and returns its address: a Dest that names this
// process and no later one.
func (p *Process) Resolve(ctx context.Context, name vni.Name) (Dest, error) {
	r := request{what: "resolve", code: vni.CodeResolve, with: To(name)}
	if !name.Valid() {
		return Dest{}, r.fail(errNobody)
	}
	r.send = vni.SendContext{Receiver: name}
	if err := p.begin(ctx, nil, &r); err != nil {
		return Dest{}, r.fail(err)
	}
	m, err := p.end(ctx, r.op)
	if err != nil {
		return Dest{}, err
	}
	return Dest{Name: name, NIC: m.NIC, Slot: m.Slot, Gen: m.Gen}, nil
}

// LookUp is Resolve that does not wait for a process: if no process has the name, it fails with
// ErrNameUnknown. It waits only for the NIC's answer, which a Cancel after the command requests.
// If all contexts are taken, LookUp fails with ErrQueueFull.
func (p *Process) LookUp(name vni.Name) (Dest, error) {
	r := request{what: "resolve", code: vni.CodeResolve, with: To(name)}
	if !name.Valid() {
		return Dest{}, r.fail(errNobody)
	}
	r.send = vni.SendContext{Receiver: name}
	l, err := p.start(nil, &r)
	if l != lackNothing {
		err = ErrQueueFull
	}
	if err != nil {
		return Dest{}, r.fail(err)
	}
	m, err := p.end(ended, r.op)
	switch {
	case errors.Is(err, context.Canceled):
		return Dest{}, r.fail(ErrNameUnknown)
	case err != nil:
		return Dest{}, err
	}
	return Dest{Name: name, NIC: m.NIC, Slot: m.Slot, Gen: m.Gen}, nil
}

// ended is a context.Context that is done.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// run begins r and waits for its end.
func (p *Process) run(ctx context.Context, r *request, parts [][]byte) error {
	if err := p.begin(ctx, parts, r); err != nil {
		return r.fail(err)
	}
	_, err := p.end(ctx, r.op)
	return err
}
