package proc

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Multicast sends a message, the concatenation of parts, to several processes by one command
// (QNIX-8). It returns when the parts may be reused. For each receiver it is an ordinary message.
// If the NIC cannot serve some receivers, it still serves the others, and the error names the
// first one in the list that failed. Messages that are sent later arrive later, unless more than
// limits.MulticastCopies copies of this process wait for their receivers. In that case multicasts
// wait as well, and messages to one receiver may overtake them.
func (p *Process) Multicast(ctx context.Context, to []vni.Name, tag uint64, parts ...[]byte) error {
	var r request
	parts, err := p.multicastRequest(&r, to, tag, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, parts)
}

// StartMulticast starts a Multicast and does not wait. ErrQueueFull: all contexts are taken. The
// parts and the list of receivers must stay unchanged until the operation is done.
func (p *Process) StartMulticast(to []vni.Name, tag uint64, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error {
		var r request
		parts, err := p.multicastRequest(&r, to, tag, parts)
		if err != nil {
			return r.fail(err)
		}
		return p.startOp(o, &r, parts)
	})
}

func (p *Process) multicastRequest(r *request, to []vni.Name, tag uint64, parts [][]byte) ([][]byte, error) {
	*r = request{what: "multicast", code: vni.CodeMulticast, size: uint32(len(to)), receivers: to}
	if len(to) == 0 || len(to) > limits.MulticastReceivers {
		return nil, fmt.Errorf("%w: %d receivers; expected 1 to %d", ErrBadArgument, len(to), limits.MulticastReceivers)
	}
	list := make([]byte, len(to)*vni.ReceiverBytes)
	for i, n := range to {
		if !n.Valid() {
			return nil, errNobody
		}
		copy(list[i*vni.ReceiverBytes:], n.App[:])
		binary.LittleEndian.PutUint32(list[i*vni.ReceiverBytes+24:], n.Index)
	}
	r.send = vni.SendContext{Receiver: to[0], Tag: tag}
	return p.gather(r, append([][]byte{list}, parts...))
}
