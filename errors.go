package weft

import (
	"errors"

	"github.com/weftnet/weft/internal/proc"
)

// What operations fail with. Each comes wrapped with the operation and whom it concerned; test with errors.Is.
var (
	ErrUnreachable     = proc.ErrUnreachable     // the other's NIC is silent, or has dropped the connection
	ErrProcessGone     = proc.ErrProcessGone     // the other process has ended
	ErrStaleGeneration = proc.ErrStaleGeneration // the address is that of an earlier process
	ErrNameUnknown     = proc.ErrNameUnknown     // no live NIC knows the name
	ErrNameLost        = proc.ErrNameLost        // another process has this one's name by an older claim
	ErrNameTaken       = errors.New("name is taken")
	ErrTruncated       = proc.ErrTruncated     // the message is longer than the buffer
	ErrQueueFull       = proc.ErrQueueFull     // too many operations under way
	ErrClosed          = proc.ErrClosed        // this process, or its NIC, has been closed
	ErrNICGone         = proc.ErrNICGone       // this process's NIC has ended
	ErrBadArgument     = proc.ErrBadArgument   // what, says the text
	ErrRegion          = proc.ErrRegion        // the handle is not, or no longer, a region's
	ErrRange           = proc.ErrRange         // beyond the region's end
	ErrCancelled       = proc.ErrCancelled     // withdrawn by Cancel
	ErrNoProgram       = proc.ErrNoProgram     // no such program or trigger in the NIC, or it takes no messages
	ErrProgramFailed   = proc.ErrProgramFailed // the program was activated, and aborted
	ErrFiltered        = proc.ErrFiltered      // a filter in front of the receiver dropped the message

	ErrGroupBroken   = proc.ErrGroupBroken   // a member of the group has gone
	ErrGroupSize     = proc.ErrGroupSize     // the group has another size, or all its members
	ErrGroupJoined   = proc.ErrGroupJoined   // this process is in the group already
	ErrNoGroup       = proc.ErrNoGroup       // this process has left the group
	ErrGroupMismatch = proc.ErrGroupMismatch // the members do different things
)

// OpError says which operation failed, whom it concerned, and why. Unwrap gives the why.
type OpError = proc.OpError
