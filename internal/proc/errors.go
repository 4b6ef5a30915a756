package proc

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// The errors of operations, inside an OpError.
var (
	ErrUnreachable     = errors.New("NIC unreachable")
	ErrProcessGone     = errors.New("process gone")
	ErrStaleGeneration = errors.New("process replaced by a later one")
	ErrNameUnknown     = errors.New("no live NIC knows this name")
	ErrNameLost        = errors.New("name lost to another claim")
	ErrTruncated       = errors.New("message longer than the buffer")
	ErrQueueFull       = errors.New("too many operations under way")
	ErrClosed          = errors.New("process closed")
	ErrNICGone         = errors.New("own NIC gone")
	ErrBadArgument     = errors.New("invalid argument")
	ErrRegion          = errors.New("no such region, or it may not be written")
	ErrKey             = errors.New("key does not fit the region")
	ErrRange           = errors.New("beyond the end of the region")
	ErrCancelled       = errors.New("cancelled")
	ErrFiltered        = errors.New("a filter in front of the receiver dropped the message")
	ErrRefused         = errors.New("a program that guards this process refused the message")
	ErrNoReceiver      = errors.New("nothing has ever received on that port there")
	ErrNoMemory        = errors.New("out of memory")
	ErrRegionInUse     = errors.New("the region is in use by an operation of its process")
	ErrGroupBroken     = errors.New("the group is broken")
	ErrGroupSize       = errors.New("the group has no place")
	ErrGroupJoined     = errors.New("already in the group")
	ErrNoGroup         = errors.New("not in the group")
	ErrGroupMismatch   = errors.New("the members of the group do different things")
	ErrSessionLost     = fmt.Errorf("%w: it has dropped the connection", ErrUnreachable)
	ErrNoProgram       = errors.New("no such program or trigger, or it takes no messages")
	ErrProgramFailed   = errors.New("the program failed")
	errWithdrawn       = errors.New("the sender has given up")
	ErrDetached        = fmt.Errorf("%w: it has thrown this process out", ErrNICGone)
)

// OpError reports which operation failed, with which peer, and the cause. It unwraps to one of
// the errors above, to the context.Context's error, or to the error of Memory. Package weft gives
// it a public form.
type OpError struct {
	// Op is "send", "receive", "put", "get", "call", "reply", "resolve", "alloc", "free",
	// "event".
	Op   string
	Peer vni.Name // zero if the peer was not named
	NIC  uint64   // of the peer; 0 if not known
	Slot uint16   // of the peer at its NIC; 0 if not known
	Gen  uint32   // of that slot; 0 if not known
	Err  error
}

func (e *OpError) Error() string {
	peer := ""
	if !e.Peer.IsZero() {
		peer = e.Peer.String()
	}
	return OpText(e.Op, peer, e.NIC, e.Slot, e.Err)
}

// OpText returns the text of a failed operation. An empty peer was not named. If the NIC or the
// slot is 0, it is unknown.
func OpText(op, peer string, nic uint64, slot uint16, err error) string {
	s := "weft: " + op
	if peer != "" {
		s += " " + preposition(op) + peer
	}
	switch {
	case nic != 0 && slot != 0 && peer == "":
		s += fmt.Sprintf(" at slot %d of NIC %s", slot, NICText(nic))
	case nic != 0:
		s += " at NIC " + NICText(nic)
	}
	if err == nil {
		return s
	}
	return s + ": " + err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

func preposition(op string) string {
	switch op {
	case "send", "multicast", "put", "reply":
		return "to "
	case "receive", "get":
		return "from "
	}
	return ""
}

// NICText writes a NIC's id as eight decimal octets (decision 1).
func NICText(id uint64) string {
	return fmt.Sprintf("%d:%d:%d:%d:%d:%d:%d:%d", byte(id>>56), byte(id>>48), byte(id>>40), byte(id>>32),
		byte(id>>24), byte(id>>16),
		byte(id>>8), byte(id))
}

var statusErrors = map[vni.Status]error{
	vni.StatusTruncated: ErrTruncated, vni.StatusUnreachable: ErrUnreachable, vni.StatusProcessGone: ErrProcessGone,
	vni.StatusStaleGeneration: ErrStaleGeneration, vni.StatusNameUnknown: ErrNameUnknown,
	vni.StatusNameLost:  ErrNameLost,
	vni.StatusCancelled: ErrCancelled, vni.StatusBadArgument: ErrBadArgument, vni.StatusBadRegion: ErrRegion,
	vni.StatusBadKey:     ErrKey,
	vni.StatusOutOfRange: ErrRange, vni.StatusClosed: ErrClosed, vni.StatusSessionLost: ErrSessionLost,
	vni.StatusNICGone:  ErrNICGone,
	vni.StatusDetached: ErrDetached, vni.StatusNoMemory: ErrNoMemory, vni.StatusGroupBroken: ErrGroupBroken,
	vni.StatusGroupSize: ErrGroupSize, vni.StatusGroupJoined: ErrGroupJoined, vni.StatusNoGroup: ErrNoGroup,
	vni.StatusGroupMismatch: ErrGroupMismatch, vni.StatusWithdrawn: errWithdrawn, vni.StatusFiltered: ErrFiltered,
	vni.StatusNoProgram: ErrNoProgram, vni.StatusProgramFailed: ErrProgramFailed,
	vni.StatusNoReceiver: ErrNoReceiver, vni.StatusRefused: ErrRefused,
}

// statusError turns a status into its error.
func statusError(s vni.Status) error {
	if s == vni.StatusOK {
		return nil
	}
	if err := statusErrors[s]; err != nil {
		return err
	}
	return fmt.Errorf("%w: %v", ErrBadArgument, s)
}

// goneError returns the error of a segment that is no longer served. It is ErrNICGone unless a
// more precise cause is known.
func goneError(why vni.Status) error {
	switch why {
	case vni.StatusNameLost, vni.StatusClosed, vni.StatusDetached:
		return statusErrors[why]
	}
	return ErrNICGone
}
