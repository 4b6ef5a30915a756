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
		"have a NIC of one's own with this `LINK`: HOST:PORT for UDP there, xdp:HOST:PORT, or shm:NAME")
	fs.StringSliceVar(&f.named, "node", nil,
		"with --listen: another NIC, `[ID@]HOST[:PORT]`, an IP or a name that is looked up once, or shm:NAME; several by commas or by more flags")
	fs.BoolVar(&f.plain, "plain", false,
		"with --listen: neither encrypt nor authenticate what goes over the link, for measurements; the other NICs must do so too")
}

// complete checks the combinations of flags.
func (f *joinFlags) complete() error {
	switch {
	case f.listen != "" && f.socket != "":
		return usagef("--socket and --listen: expected one or the other, since --listen is for a NIC of one's own")
	case f.listen == "" && f.plain:
		return usagef("--plain without --listen: a NIC daemon has plain = true in its own configuration")
	case f.listen == "" && len(f.named) > 0:
		return usagef("--node without --listen: a NIC daemon has its nodes from its own configuration")
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
			return usagef("--node %s with --listen %s: expected shm:NAME in both or in none, since shared memory joins its own NICs alone",
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
