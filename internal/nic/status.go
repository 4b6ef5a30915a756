package nic

import (
	"errors"

	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

var (
	errBadRegion  = errors.New("nic: no such region")
	errOutOfRange = errors.New("nic: beyond the region's end")
	errNoMemory   = errors.New("nic: the process has as many bytes in rings as it may")
)

// statusOf is what a process is told of an operation whose arguments are wrong.
func statusOf(err error) vni.Status {
	switch {
	case errors.Is(err, errBadRegion):
		return vni.StatusBadRegion
	case errors.Is(err, errOutOfRange):
		return vni.StatusOutOfRange
	case errors.Is(err, errNoMemory):
		return vni.StatusNoMemory
	}
	return vni.StatusBadArgument
}

// refusals has what a process is told of an operation that its destination refused for a reason, and what counts the refusals.
var refusals = [...]struct {
	status  vni.Status
	counter vni.Counter
}{
	wire.ReasonNone:            {vni.StatusCancelled, vni.NICRefusedCancelled},
	wire.ReasonProcessGone:     {vni.StatusProcessGone, vni.NICRefusedProcessGone},
	wire.ReasonStaleGeneration: {vni.StatusStaleGeneration, vni.NICRefusedStaleGeneration},
	wire.ReasonRegion:          {vni.StatusBadRegion, vni.NICRefusedRegion},
	wire.ReasonRange:           {vni.StatusOutOfRange, vni.NICRefusedRange},
	wire.ReasonCancelled:       {vni.StatusCancelled, vni.NICRefusedCancelled},
	wire.ReasonTruncated:       {vni.StatusTruncated, vni.NICTruncated},
	wire.ReasonFiltered:        {vni.StatusFiltered, vni.NICRefusedFiltered},
	wire.ReasonNoReceiver:      {vni.StatusNoReceiver, vni.NICRefusedNoReceiver},
}

// statusOfReason is what a process is told of an operation that its destination refused, for whatever reason the peer names.
func statusOfReason(why wire.Reason) vni.Status {
	if int(why) < len(refusals) {
		return refusals[why].status
	}
	return vni.StatusCancelled
}

// sessionEnd is what the end of a session means, or of the attempt at one: silence, another life, and an orderly end are told apart.
type sessionEnd struct {
	status  vni.Status // of the operations that the peer leaves undone
	event   uint32     // that processes are told of
	counter vni.Counter
}

// sessionEndOf is the one for a reason of rel's.
func sessionEndOf(why error) sessionEnd {
	switch {
	case errors.Is(why, rel.ErrRestarted): // with its NIC, the process has gone
		return sessionEnd{vni.StatusProcessGone, vni.EventRestarted, vni.RelDownRestarted}
	case errors.Is(why, rel.ErrGoodbye):
		return sessionEnd{vni.StatusProcessGone, vni.EventClosed, vni.RelDownGoodbye}
	case errors.Is(why, rel.ErrSessionLost):
		return sessionEnd{vni.StatusSessionLost, vni.EventUnreachable, vni.RelDownLost}
	case errors.Is(why, rel.ErrUnreachable):
		return sessionEnd{vni.StatusUnreachable, vni.EventUnreachable, vni.RelDownUnreachable}
	}
	return sessionEnd{vni.StatusUnreachable, vni.EventUnreachable, vni.RelDownLost}
}
