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

// statusOfReason is what a process is told of an operation that its destination refused.
func statusOfReason(why wire.Reason) vni.Status {
	switch why {
	case wire.ReasonProcessGone:
		return vni.StatusProcessGone
	case wire.ReasonStaleGeneration:
		return vni.StatusStaleGeneration
	case wire.ReasonRegion:
		return vni.StatusBadRegion
	case wire.ReasonRange:
		return vni.StatusOutOfRange
	case wire.ReasonTruncated:
		return vni.StatusTruncated
	case wire.ReasonFiltered:
		return vni.StatusFiltered
	case wire.ReasonNoReceiver:
		return vni.StatusNoReceiver
	}
	return vni.StatusCancelled
}

// statusOfDown is what a process is told of operations that a lost peer leaves undone.
func statusOfDown(why error) vni.Status {
	switch {
	case errors.Is(why, rel.ErrRestarted), errors.Is(why, rel.ErrGoodbye):
		return vni.StatusProcessGone // with its NIC, the process has gone
	case errors.Is(why, rel.ErrSessionLost):
		return vni.StatusSessionLost
	}
	return vni.StatusUnreachable
}

var refusalCounters = [...]vni.Counter{
	wire.ReasonNone:            vni.NICRefusedCancelled,
	wire.ReasonProcessGone:     vni.NICRefusedProcessGone,
	wire.ReasonStaleGeneration: vni.NICRefusedStaleGeneration,
	wire.ReasonRegion:          vni.NICRefusedRegion,
	wire.ReasonRange:           vni.NICRefusedRange,
	wire.ReasonCancelled:       vni.NICRefusedCancelled,
	wire.ReasonTruncated:       vni.NICTruncated,
	wire.ReasonFiltered:        vni.NICRefusedFiltered,
	wire.ReasonNoReceiver:      vni.NICRefusedNoReceiver,
}
