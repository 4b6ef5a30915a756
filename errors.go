package weft

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/proc"
)

// What operations fail with. Each comes wrapped with the operation and its peer; test with errors.Is.
var (
	ErrUnreachable     = proc.ErrUnreachable     // the other's NIC is silent, or has dropped the connection
	ErrProcessGone     = proc.ErrProcessGone     // the other process has ended
	ErrStaleGeneration = proc.ErrStaleGeneration // the address is that of an earlier process
	ErrNameUnknown     = proc.ErrNameUnknown     // no live NIC knows the name
	ErrNameLost        = proc.ErrNameLost        // the fabric gave this process's name to another one after a partition
	ErrPortInUse       = errors.New("the port is in use")
	ErrTruncated       = proc.ErrTruncated     // the message is longer than the buffer
	ErrQueueFull       = proc.ErrQueueFull     // too many operations under way
	ErrClosed          = proc.ErrClosed        // this process, or its NIC, has been closed
	ErrNICGone         = proc.ErrNICGone       // this process's NIC has ended
	ErrBadArgument     = proc.ErrBadArgument   // what, says the text
	ErrRegion          = proc.ErrRegion        // the handle is not, or no longer, a region's, or does not let write
	ErrRange           = proc.ErrRange         // beyond the region's end
	ErrCancelled       = proc.ErrCancelled     // withdrawn by Cancel; of Reply: the caller has given up
	ErrNoProgram       = proc.ErrNoProgram     // no such program or trigger in the NIC, or it takes no messages
	ErrProgramFailed   = proc.ErrProgramFailed // the program was activated, and aborted, or was busy for too long
	ErrFiltered        = proc.ErrFiltered      // a filter in front of the receiver dropped the message
	ErrNoReceiver      = proc.ErrNoReceiver    // of SendDelivered to a library's port, on which its receiver has never received
	ErrNoMemory        = proc.ErrNoMemory      // the NIC has no memory left for this, or no place for another region, share, or process to send to
	ErrRegionInUse     = proc.ErrRegionInUse   // of Region.Close: an operation of this process under way uses it

	ErrNameTaken    = errors.New("name is taken")                           // of Attach and Open: another process of the fabric has the name; which, says the text
	ErrNoDaemon     = errors.New("no NIC daemon")                           // of Attach: nothing listens at the socket
	ErrNotTrusted   = errors.New("the daemon is not trusted")               // of Attach: neither root nor this user has started it, nor the owner of its socket's place
	ErrNotPermitted = errors.New("not permitted")                           // of Attach: the socket or the daemon refuses this user
	ErrFull         = errors.New("the NIC has no room for another process") // of Attach: every slot has a process
	ErrOtherVersion = errors.New("the daemon speaks another version")       // of Attach: daemon and program are of different releases

	ErrGroupBroken   = proc.ErrGroupBroken   // a member of the group has left or ended
	ErrGroupSize     = proc.ErrGroupSize     // the group has another size, or all its members; which, says the text
	ErrGroupJoined   = proc.ErrGroupJoined   // this process is in the group already
	ErrNoGroup       = proc.ErrNoGroup       // this process has left the group
	ErrGroupMismatch = proc.ErrGroupMismatch // the members do different things
)

// OpError says which operation failed, with which peer, and why.
//
//	Op         what failed, such as "send", "receive" or "call"
//	Peer       the other process's name, as Name.String writes it when it is printed; "any" if the operation did not name it
//	NIC, Slot  where that process is; 0 if that is not known
//	Err        the why, which Unwrap gives, too
type OpError = proc.OpError

// argument makes err, which says what is wrong with an argument, ErrBadArgument too.
func argument(err error) error { return badArgument{err} }

type badArgument struct{ error }

func (b badArgument) Unwrap() []error { return []error{ErrBadArgument, b.error} }

// ended is the error of an operation whose context has ended before it begins: then it does nothing.
func ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}
