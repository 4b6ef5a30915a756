package ctl

import (
	"context"
	"errors"
	"fmt"
)

// Reload asks a daemon to reload its configuration, as SIGHUP does. Only the daemon's own user and
// root may ask.
type Reload struct {
	// Check only reports the changes, and applies none.
	Check bool `json:"check,omitempty"`
}

// Reloaded is the result of a reload.
type Reloaded struct {
	Applied []Change `json:"applied,omitempty"` // in effect now
	Restart []Change `json:"restart,omitempty"` // in effect after a restart of the daemon
	// Left counts the changes that exceed the size of one reply, and so are in neither list.
	Left int `json:"left,omitempty"`
}

// Change is a changed key of the configuration. Values are texts for people; the text of a secret
// is its fingerprint.
type Change struct {
	Link string `json:"link,omitempty"` // empty: all links, or the only one
	Key  string `json:"key"`
	Was  string `json:"was"` // empty: not set
	Is   string `json:"is"`  // empty: not set
}

// String returns the change in the form of the log and the tools.
func (c Change) String() string {
	unset := func(s string) string {
		if s == "" {
			return "not set"
		}
		return s
	}
	text := fmt.Sprintf("%s: %s → %s", c.Key, unset(c.Was), unset(c.Is))
	if c.Link != "" {
		return "link " + c.Link + ": " + text
	}
	return text
}

// NodeChange asks a daemon to add a node to its list, or to remove one. Only the daemon's own user
// and root may ask.
type NodeChange struct {
	Do   string `json:"do"`
	Node string `json:"node"` // [ID@]HOST[:PORT]
}

// Values of NodeChange.Do.
const (
	NodeAdd    = "add"
	NodeRemove = "remove"
)

// maxNodeText is the longest text of a node, in bytes. A host name has at most 253.
const maxNodeText = 512

func (n *NodeChange) check() error {
	switch {
	case n.Do != NodeAdd && n.Do != NodeRemove:
		return fmt.Errorf("%w: %.40q of a node; expected %s or %s", ErrBadRequest, n.Do, NodeAdd, NodeRemove)
	case n.Node == "" || len(n.Node) > maxNodeText:
		return fmt.Errorf("%w: a node of %d bytes; expected [ID@]HOST[:PORT] of at most %d", ErrBadRequest,
			len(n.Node), maxNodeText)
	}
	return nil
}

// Reload makes the daemon reload its configuration, and apply the changes that need no restart.
// With check it only reports them. If the configuration is wrong, the daemon changes nothing, and
// the error lists the mistakes.
func (c *Conn) Reload(ctx context.Context, check bool) (*Reloaded, error) {
	r, _, err := c.call(ctx, &Request{Op: OpReload, Reload: &Reload{Check: check}}, 0)
	if err != nil {
		return nil, err
	}
	if r.Reloaded == nil {
		return nil, errors.New("the reply to \"reload\" lacks the changes")
	}
	return r.Reloaded, nil
}

// AddNode adds [ID@]HOST[:PORT] to the list of nodes of the daemon's NIC.
func (c *Conn) AddNode(ctx context.Context, node string) error {
	return c.changeNode(ctx, NodeAdd, node)
}

// RemoveNode removes [ID@]HOST[:PORT] from the list of nodes of the daemon's NIC.
func (c *Conn) RemoveNode(ctx context.Context, node string) error {
	return c.changeNode(ctx, NodeRemove, node)
}

func (c *Conn) changeNode(ctx context.Context, do, node string) error {
	_, _, err := c.call(ctx, &Request{Op: OpNode, Node: &NodeChange{Do: do, Node: node}}, 0)
	return err
}
