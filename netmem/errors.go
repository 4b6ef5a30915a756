package netmem

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft"
)

// The errors of clients and volumes. Test for them with errors.Is.
var (
	// ErrFull means that the servers have no room for another copy of a page, or that the client
	// has reached its quota there. Open, writes and RemoveServer return it.
	ErrFull = errors.New("netmem: the servers have no room for another copy")

	// ErrMissing means that the page was never written, or was discarded.
	ErrMissing = errors.New("netmem: no such page")

	// ErrLost means that no server has the page any more: too many of its servers have died.
	ErrLost = errors.New("netmem: all copies of the page are lost")

	// ErrFew means that fewer servers are up than a page has copies or shards.
	ErrFew = errors.New("netmem: fewer servers are up than a page has copies")
)

// marked is an error whose text does not name the error that it also is.
type marked struct {
	error
	is error
}

func (m marked) Unwrap() []error { return []error{m.is, m.error} }

// badArgument returns an error with this text that is weft.ErrBadArgument.
func badArgument(format string, args ...any) error {
	return marked{fmt.Errorf(format, args...), weft.ErrBadArgument}
}
