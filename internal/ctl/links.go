package ctl

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/weftnet/weft/internal/registry"
)

// A daemon may have several links behind one socket, each with its own NIC, processes and peers.
// Clients name the link in each request.
//
//	/run/weft/nic.sock         the first link
//	/run/weft/nic.sock#fast0   the link fast0
//	#fast0                     the link fast0 of the daemon at the default socket
//
// $WEFT_SOCKET may name a link in the same way, and $WEFT_LINK may name only the link.

// MaxLinkName is the longest name of a link, in bytes.
const MaxLinkName = 32

// LinkVariable is the environment variable with the link of clients that name neither a socket
// nor a link.
const LinkVariable = "WEFT_LINK"

// Link is one of a daemon's links.
type Link struct {
	Name      string         `json:"name"` // the name by which clients choose it
	Kind      string         `json:"kind"` // udp, xdp or xdp-generic
	NIC       registry.NICID `json:"nic"`
	Address   string         `json:"address"`
	Processes int            `json:"processes"` // attached ones
}

// IsLinkName reports whether a link may have that name: a letter or digit, followed by letters,
// digits and . _ -
func IsLinkName(s string) bool {
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("._-", r)) {
			return false
		}
	}
	return s != "" && len(s) <= MaxLinkName
}

// CutLink separates a socket from the name of a link after its last #. A # in the name of a
// directory does not count.
func CutLink(socket string) (path, link string) {
	if i := strings.LastIndexByte(socket, '#'); i >= 0 && !strings.Contains(socket[i:], "/") {
		return socket[:i], socket[i+1:]
	}
	return socket, ""
}

// chooseLink returns the path to dial and the link to name there. The link is the given one, or
// the one in the text of the socket. For clients that name neither, it is that of $WEFT_SOCKET or
// $WEFT_LINK.
func chooseLink(socket, link string) (path, name string) {
	path, in := CutLink(socket)
	if link = cmp.Or(link, in); link == "" && path == "" {
		_, in = CutLink(os.Getenv(socketVariable))
		link = cmp.Or(in, os.Getenv(LinkVariable))
	}
	return path, link
}

// Links lists the links of the daemon, the first one first.
func (c *Conn) Links(ctx context.Context) ([]Link, error) {
	return list(ctx, c.NIC(0), OpLinks, func(r *Reply) []Link { return r.Links })
}
