package weft

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/proc"
)

// The errors of operations. An operation wraps its error in an [OpError] or a [GroupError]. Test
// for the error with errors.Is.
var (
	ErrUnreachable     = proc.ErrUnreachable     // the peer's NIC is silent, or has ended the session
	ErrProcessGone     = proc.ErrProcessGone     // the peer has ended
	ErrStaleGeneration = proc.ErrStaleGeneration // the address is that of an earlier process
	ErrNameUnknown     = proc.ErrNameUnknown     // no live NIC knows the name
	ErrNameLost        = proc.ErrNameLost        // another process has this process's name: a newer one of its rank, or one beyond a partition
	ErrTruncated       = proc.ErrTruncated       // the message is longer than the buffer
	ErrQueueFull       = proc.ErrQueueFull       // too many operations are in flight
	ErrClosed          = proc.ErrClosed          // this process, its NIC, or the object of the call is closed
	ErrNICGone         = proc.ErrNICGone         // this process's NIC has ended
	ErrBadArgument     = proc.ErrBadArgument     // an argument is invalid; the error's text names the argument
	ErrRegion          = proc.ErrRegion          // the handle names no open region, or does not permit writing
	ErrRange           = proc.ErrRange           // the access goes beyond the end of the region
	ErrCancelled       = proc.ErrCancelled       // Cancel withdrew the operation; from Reply: the caller has given up
	ErrNoProgram       = proc.ErrNoProgram       // the NIC lacks the program or trigger, or the program takes no messages
	ErrProgramFailed   = proc.ErrProgramFailed   // the program in the NIC aborted, or was busy for too long
	ErrFiltered        = proc.ErrFiltered        // a filter in front of the receiver dropped the message
	ErrRefused         = proc.ErrRefused         // a program that guards this process refused the message
	ErrNoReceiver      = proc.ErrNoReceiver      // from SendDelivered: the receiver has never received on that port
	ErrNoMemory        = proc.ErrNoMemory        // a quota or the memory is used up, or a table of the NIC is full
	ErrRegionInUse     = proc.ErrRegionInUse     // from Region.Close: an operation in flight uses the region

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

	ErrGroupBroken   = proc.ErrGroupBroken   // a member of the group has left or ended
	ErrGroupSize     = proc.ErrGroupSize     // the group has a different size, or already has all its members
	ErrGroupJoined   = proc.ErrGroupJoined   // this process is already in the group
	ErrNoGroup       = proc.ErrNoGroup       // this process has left the group
	ErrGroupMismatch = proc.ErrGroupMismatch // the members called different operations
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
