package main

import (
	"context"

	"github.com/spf13/pflag"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/registry"
)

// joinFlags say by which NIC a tool is a process of the fabric: the daemon of the host, or one of its own.
type joinFlags struct {
	socket string
	listen string
	nodes  []fabric.Node
}

func (f *joinFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.socket, "socket", "", socketHelp)
	fs.StringVar(&f.listen, "listen", "", "have a NIC of one's own, which listens at this address, IP:PORT")
	fs.Var(&checkedFlag{
		kind: "[ID@]IP:PORT",
		want: "a NIC's address, such as 10.0.0.2:7700, with its id before an @ if that is known",
		set: func(s string) bool {
			n, err := registry.ParseNode(s)
			f.nodes = append(f.nodes, fabric.Node{ID: n.ID, Addr: n.Addr.String()})
			return err == nil
		},
	}, "node", "with --listen: a NIC to know from the start; may be repeated")
}

// complete checks what no flag can check alone.
func (f *joinFlags) complete() error {
	switch {
	case f.listen != "" && f.socket != "":
		return usagef("--socket and --listen: expected one or the other, since --listen is for a NIC of one's own")
	case f.listen == "" && len(f.nodes) > 0:
		return usagef("--node without --listen: a NIC daemon has its nodes from its own configuration")
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
	return fabric.Open(ctx, fabric.Config{Name: name, Link: link, Nodes: f.nodes})
}
