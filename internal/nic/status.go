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

// statusOf returns the status of an operation whose arguments are wrong.
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

// refusals holds, for each reason of a refusal, the status of the refused operation, and the
// counter of such refusals.
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

// statusOfReason returns the status of an operation that its destination refused for a reason,
// which may be unknown.
func statusOfReason(why wire.Reason) vni.Status {
	if int(why) < len(refusals) {
		return refusals[why].status
	}
	return vni.StatusCancelled
}

// sessionEnd describes the end of a session, or of the attempt at one. It distinguishes silence,
// another life of the NIC, and an orderly end.
type sessionEnd struct {
	status  vni.Status // of the operations that the peer has not finished
	event   uint32     // event that processes get
	counter vni.Counter
}

// sessionEndOf returns the session end for a reason that rel gives.
func sessionEndOf(why error) sessionEnd {
	switch {
	case errors.Is(why, rel.ErrRestarted): // the process has gone with its NIC
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
