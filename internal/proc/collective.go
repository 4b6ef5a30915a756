package proc

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Barrier returns when every member has entered it (QNIX-8). If ctx ends first, this process
// leaves the group, and the others' barriers fail, because a member cannot withdraw from a
// collective operation that it has entered. This holds for all collective operations.
func (g *Group) Barrier(ctx context.Context) error {
	if err := g.begin(ctx, "barrier"); err != nil {
		return err
	}
	defer g.done()
	return g.barrier(ctx, "barrier")
}

func (g *Group) barrier(ctx context.Context, op string) error {
	r := request{what: op, code: vni.CodeBarrier, group: g.number, size: uint32(len(g.roster))}
	if err := g.p.begin(ctx, nil, &r); err != nil {
		g.notBegun(ctx, g.midway)
		return g.fail(op, Message{}, err)
	}
	if m, err := g.p.end(ctx, r.op); err != nil {
		return g.fail(op, m, err)
	}
	return nil
}

// Broadcast copies buf of the member with rank root into buf of all others. All must have the
// same length. At the root, Broadcast returns when every member's NIC has the bytes; elsewhere,
// it returns when they are in buf. ErrTruncated: the root has more bytes. ErrGroupMismatch: the
// root has fewer bytes.
func (g *Group) Broadcast(ctx context.Context, root int, buf []byte) error {
	if err := g.begin(ctx, "broadcast"); err != nil {
		return err
	}
	defer g.done()
	return g.broadcast(ctx, "broadcast", root, buf)
}

func (g *Group) broadcast(ctx context.Context, op string, root int, buf []byte) error {
	if err := g.checkRoot(op, root); err != nil {
		return err
	}
	return g.cut(ctx, op, len(buf), limits.BroadcastBytes, func(r *request, at, n int) [][]byte {
		r.code, r.send.Tag = vni.CodeBroadcast, uint64(root)
		if g.rank != root {
			r.to(buf[at : at+n])
			return nil
		}
		r.length = uint64(n)
		return [][]byte{buf[at : at+n]}
	})
}

// cut splits an operation on length bytes into operations on at most most bytes each. Some of
// them run concurrently. fill completes the request for the n bytes at at, and returns the
// outgoing bytes.
func (g *Group) cut(ctx context.Context, op string, length, most int, fill func(r *request, at, n int) [][]byte) error {
	var under [limits.CollectivesUnderWay]*Op
	var failed error
	begun, ended := 0, 0
	end := func() (bool, error) {
		if ended == begun {
			return false, nil
		}
		o, n := under[ended%len(under)], min(most, length-ended*most)
		ended++
		m, err := g.p.end(ctx, o)
		// In a broadcast, the lengths may differ. Other operations fail if they do.
		if err == nil && m.Full != uint64(n) {
			err = fmt.Errorf("%w: a broadcast of %d bytes, where this process expects %d", ErrGroupMismatch, m.Full, n)
		}
		if err != nil && failed == nil {
			failed = g.fail(op, m, err)
		}
		return true, failed
	}
	for at := 0; failed == nil && (at < length || begun == 0); at += most {
		if begun-ended == len(under) {
			if _, err := end(); err != nil {
				break
			}
		}
		r := request{what: op, group: g.number}
		parts := fill(&r, at, min(most, length-at))
		if err := g.p.beginBeside(ctx, parts, &r, end); err != nil {
			if failed == nil {
				failed = g.fail(op, Message{}, err)
				g.notBegun(ctx, g.midway || begun > 0)
			}
			break
		}
		under[begun%len(under)] = r.op
		begun++
	}
	for ended < begun {
		_, _ = end()
	}
	return failed
}
