package main

import (
	"context"

	"github.com/spf13/pflag"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/link/shm"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
)

// joinFlags say by which NIC a tool joins the fabric: the daemon of the host, or an embedded
// NIC.
type joinFlags struct {
	socket string
	listen string
	key    string   // a file
	named  []string // as given
	nodes  []fabric.Node
	plain  bool
}

func (f *joinFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.socket, "socket", "", socketHelp)
	fs.StringVar(&f.listen, "listen", "",
		"run an embedded NIC on `LINK`: HOST:PORT for UDP, xdp:HOST:PORT, or shm:NAME")
	fs.StringSliceVar(&f.named, "node", nil,
		"with --listen: add another NIC, `[ID@]HOST[:PORT]` or shm:NAME; HOST is an IP or a name, "+
			"which is resolved once; may be repeated, or hold several NICs separated by commas")
	fs.BoolVar(&f.plain, "plain", false,
		"with --listen: neither encrypt nor authenticate frames, for measurements; "+
			"all peers must do the same")
}

// complete checks the combinations of flags.
func (f *joinFlags) complete() error {
	switch {
	case f.listen != "" && f.socket != "":
		return usagef("--socket and --listen: expected one or the other, since --listen runs an embedded NIC")
	case f.listen == "" && f.plain:
		return usagef("--plain without --listen: expected both; for a NIC daemon, " +
			"set plain = true in its configuration")
	case f.listen == "" && len(f.named) > 0:
		return usagef("--node without --listen: expected both; a NIC daemon takes its nodes from its configuration")
	}
	for _, s := range f.named {
		switch own := shm.IsName(f.listen); {
		case own && shm.IsName(s):
			if _, err := shm.Parse(s); err != nil {
				return usagef("--node: %w", err)
			}
			f.nodes = append(f.nodes, fabric.Node{Addr: s})
			continue
		case own || shm.IsName(s):
			return usagef("--node %s with --listen %s: expected shm:NAME in both or in neither, "+
				"since a NIC on shared memory reaches only other NICs on shared memory",
				s, f.listen)
		}
		e := file.EntryOf(s)
		n, err := e.Node(registry.Torus{})
		if err != nil {
			return usagef("--node: %w", err)
		}
		f.nodes = append(f.nodes, fabric.Node{ID: fabric.NICID(n.ID), Addr: e.Address})
	}
	return nil
}

// join makes the process.
func (f *joinFlags) join(ctx context.Context, name fabric.Name) (*fabric.Process, error) {
	if f.listen == "" {
		return fabric.Attach(ctx, fabric.AttachConfig{Socket: f.socket, Name: name})
	}
	link, err := fabric.ParseLink(f.listen)
	if err != nil {
		return nil, err
	}
	return fabric.Open(ctx, fabric.Config{Name: name, Link: link, Nodes: f.nodes, Key: f.key, Plain: f.plain})
}
