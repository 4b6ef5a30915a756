package netmem

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft"
)

// The errors of clients and volumes. Use errors.Is to test for an error.
var (
	// ErrFull means that the servers have no room for another copy of a page, or that the client
	// has reached its quota on the servers. Open, RemoveServer and all calls that write can return
	// ErrFull.
	ErrFull = errors.New("netmem: the servers have no room for another copy")

	// ErrMissing means that the page was never written or was discarded.
	ErrMissing = errors.New("netmem: no such page")

	// ErrLost means that no server can supply the page any more, because too many of the servers
	// that held the page have died.
	ErrLost = errors.New("netmem: all copies of the page are lost")

	// ErrFew means that the number of servers that are up is lower than the number of copies or
	// shards of a page.
	ErrFew = errors.New("netmem: fewer servers are up than a page has copies")
)

// marked is an error that wraps the error is without showing the text of is.
type marked struct {
	error
	is error
}

func (m marked) Unwrap() []error { return []error{m.is, m.error} }

// badArgument returns an error with the given text that wraps weft.ErrBadArgument.
func badArgument(format string, args ...any) error {
	return marked{fmt.Errorf(format, args...), weft.ErrBadArgument}
}
