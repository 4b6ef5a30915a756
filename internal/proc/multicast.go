package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Multicast sends a message, the concatenation of parts, to each of some processes, by one command (QNIX-8). It returns
// when the parts may be reused. To each receiver it is a message like any other. If some could not be served, the
// others were nevertheless, and the error names the first that was not.
func (p *Process) Multicast(ctx context.Context, to []vni.Name, tag uint64, parts ...[]byte) error {
	r := request{what: "multicast", code: vni.CodeMulticast, size: uint32(len(to))}
	if len(to) == 0 || len(to) > limits.MulticastReceivers {
		return r.fail(fmt.Errorf("%w: %d receivers, want 1 to %d", ErrBadArgument, len(to), limits.MulticastReceivers))
	}
	list := make([]byte, len(to)*vni.ReceiverBytes, max(limits.ShortMessage, len(to)*vni.ReceiverBytes))
	for i, n := range to {
		if !n.Valid() {
			return r.fail(errNobody)
		}
		copy(list[i*vni.ReceiverBytes:], n.App[:])
		binary.LittleEndian.PutUint32(list[i*vni.ReceiverBytes+24:], n.Index)
	}
	r.send = vni.SendContext{Receiver: to[0], Tag: tag}
	parts, err := p.gather(&r, append([][]byte{list}, parts...))
	if err != nil {
		return r.fail(err)
	}
	if err := p.begin(ctx, parts, &r); err != nil {
		return r.fail(err)
	}
	m, err := p.end(ctx, r.op)
	var o *OpError
	if errors.As(err, &o) && m.Tag < uint64(len(to)) && !errors.Is(err, ErrBadArgument) {
		o.Peer = to[m.Tag]
	}
	return err
}
