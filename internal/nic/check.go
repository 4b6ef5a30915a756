package nic

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/nicid"
)

// ErrNoNode is what Check ends with when there is no such NIC.
var ErrNoNode = errors.New("nic: no such node")

// Check begins a connectivity check of a node (USNIC-61), opening a session first if there is none. Nodes tells how it
// stands; it ends within limits.CheckTries probes, or when the node is given up.
func (e *Engine) Check(now clock.Time, id uint64) error {
	e.begin()
	pr := e.peerOf(id)
	if pr == nil {
		return fmt.Errorf("%w: %v", ErrNoNode, nicid.ID(id))
	}
	pr.ep.Check(now)
	return nil
}

// CheckAll is Check of every node, also of those whose id is not known yet.
func (e *Engine) CheckAll(now clock.Time) {
	e.begin()
	for _, pr := range e.peers.list {
		pr.ep.Check(now)
	}
}
