package weft

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/proc"
)

// The errors of operations. An operation wraps its error in an [OpError] or a [GroupError]. Test
// for the error with errors.Is.
var (
	// ErrUnreachable: the peer's NIC is silent, or has ended the session.
	ErrUnreachable = proc.ErrUnreachable
	// ErrProcessGone: the peer has ended.
	ErrProcessGone = proc.ErrProcessGone
	// ErrStaleGeneration: the address is that of an earlier process.
	ErrStaleGeneration = proc.ErrStaleGeneration
	// ErrNameUnknown: no live NIC knows the name.
	ErrNameUnknown = proc.ErrNameUnknown
	// ErrNameLost: another process has this process's name: a newer one of its rank, or one
	// beyond a partition.
	ErrNameLost = proc.ErrNameLost
	// ErrTruncated: the message is longer than the buffer.
	ErrTruncated = proc.ErrTruncated
	// ErrQueueFull: too many operations are in flight.
	ErrQueueFull = proc.ErrQueueFull
	// ErrClosed: this process, its NIC, or the object of the call is closed.
	ErrClosed = proc.ErrClosed
	// ErrNICGone: this process's NIC has ended.
	ErrNICGone = proc.ErrNICGone
	// ErrBadArgument: an argument is invalid; the error's text names the argument.
	ErrBadArgument = proc.ErrBadArgument
	// ErrRegion: the handle names no open region, or does not permit writing.
	ErrRegion = proc.ErrRegion
	// ErrRange: the access goes beyond the end of the region.
	ErrRange = proc.ErrRange
	// ErrCancelled: Cancel withdrew the operation, or Reply came after the caller had given up.
	ErrCancelled = proc.ErrCancelled
	// ErrNoProgram: the NIC lacks the program or trigger, or the program takes no messages.
	ErrNoProgram = proc.ErrNoProgram
	// ErrProgramFailed: the program in the NIC aborted, or was busy for too long.
	ErrProgramFailed = proc.ErrProgramFailed
	// ErrFiltered: a filter in front of the receiver dropped the message.
	ErrFiltered = proc.ErrFiltered
	// ErrRefused: a program that guards this process refused the message.
	ErrRefused = proc.ErrRefused
	// ErrNoReceiver comes from SendDelivered: the receiver has never received on that port.
	ErrNoReceiver = proc.ErrNoReceiver
	// ErrNoMemory: a quota or the memory is used up, or a table of the NIC is full.
	ErrNoMemory = proc.ErrNoMemory
	// ErrRegionInUse comes from Region.Close: an operation in flight uses the region.
	ErrRegionInUse = proc.ErrRegionInUse

	// ErrPortInUse comes from Process.Port: another Port of the process has the number.
	ErrPortInUse = errors.New("the port is in use")

	// ErrNameTaken comes from Attach and Open: another process has the name.
	ErrNameTaken = errors.New("name is taken")

	// ErrNoDaemon comes from Attach: nothing listens at the socket.
	ErrNoDaemon = errors.New("no NIC daemon")

	// ErrNotTrusted comes from Attach: the daemon's user is neither root, nor this user, nor the
	// owner of the socket's directory.
	ErrNotTrusted = errors.New("the daemon is not trusted")

	// ErrNotPermitted comes from Attach: the socket or the daemon refuses this user.
	// Process.SharedSegment also returns it, if the segment belongs to another user.
	ErrNotPermitted = errors.New("not permitted")

	// ErrFull comes from Attach: the NIC has no slot for another process.
	ErrFull = errors.New("the NIC has no room for another process")

	// ErrOtherVersion comes from Attach: the daemon and this program use different releases of
	// Weft.
	ErrOtherVersion = errors.New("the daemon speaks another version")

	// ErrGroupBroken: a member of the group has left or ended.
	ErrGroupBroken = proc.ErrGroupBroken
	// ErrGroupSize: the group has a different size, or already has all its members.
	ErrGroupSize = proc.ErrGroupSize
	// ErrGroupJoined: this process is already in the group.
	ErrGroupJoined = proc.ErrGroupJoined
	// ErrNoGroup: this process has left the group.
	ErrNoGroup = proc.ErrNoGroup
	// ErrGroupMismatch: the members called different operations.
	ErrGroupMismatch = proc.ErrGroupMismatch
)

// OpError reports which operation failed, with which peer, and why.
type OpError struct {
	Op   string  // the operation, such as "send", "receive" or "call"
	Peer Name    // the peer's name; AnyProcess if the operation did not name the peer
	Addr Address // the peer's address; a field that is not known is 0
	Err  error   // the cause, which Unwrap returns
}

// Error returns the operation, the peer and the cause in one line.
func (e *OpError) Error() string {
	peer := ""
	if e.Peer != AnyProcess {
		peer = e.Peer.String()
	}
	return proc.OpText(e.Op, peer, uint64(e.Addr.NIC), e.Addr.Slot, e.Err)
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// opError converts an error of package proc to its public form. Every public call passes its error
// through opError.
func opError(err error) error {
	if err == nil {
		return nil
	}
	return publicError(err)
}

func publicError(err error) error {
	if e, ok := err.(*proc.OpError); ok {
		return &OpError{Op: e.Op, Peer: nameOf(e.Peer), Addr: Address{NICID(e.NIC), e.Slot, e.Gen}, Err: e.Err}
	}
	return err
}

// ended returns an error if ctx is done. Each operation without a peer calls it first.
func ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}

// ended returns an error that names the peer if ctx is done.
func (r Peer) ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &OpError{Op: op, Peer: r.Name(), Addr: r.at, Err: err}
	}
	return nil
}

// argument returns an error with the text of err that also matches ErrBadArgument.
func argument(err error) error { return badArgument{err} }

type badArgument struct{ error }

func (b badArgument) Unwrap() []error { return []error{ErrBadArgument, b.error} }
