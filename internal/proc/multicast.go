package proc

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Multicast sends a message, the concatenation of parts, to each of some processes, by one command (QNIX-8). It returns
// when the parts may be reused. To each receiver it is a message like any other. If some could not be served, the
// others were nevertheless, and the error names the first in the list that was not. Messages sent later come later, unless
// more than limits.MulticastCopies of this process wait for their receivers: then multicasts wait as well, and messages
// to one receiver may pass them.
func (p *Process) Multicast(ctx context.Context, to []vni.Name, tag uint64, parts ...[]byte) error {
	var r request
	parts, err := p.multicastRequest(&r, to, tag, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, parts)
}

// StartMulticast begins what Multicast does, and does not wait: ErrQueueFull if all contexts are taken. The parts, and
// the list of receivers, must stay as they are until the operation is done.
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
