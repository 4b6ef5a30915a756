package proxy

import (
	"errors"
	"net"
	"sync"
)

// The sides that can end a connection, as the log names them.
const (
	byFrom  = "from"  // the accepted side
	byTo    = "to"    // the dialled side
	byProxy = "proxy" // the proxy itself
)

var errDrained = errors.New("the proxy ends, and the time of its drain is over")

// fault is the first failure of a connection, and the side that failed. Every later failure is a
// consequence: the proxy resets both ends, and each call in flight then fails.
type fault struct {
	mu  sync.Mutex
	by  string
	err error
}

// note keeps a failure if it is the first.
func (f *fault) note(by string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	for op := (*net.OpError)(nil); errors.As(err, &op) && op.Err != nil; {
		err = op.Err // the log line already has the addresses
	}
	f.by, f.err = by, err
}

// first returns the first failure and its side; nil if there was none.
func (f *fault) first() (by string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by, f.err
}
