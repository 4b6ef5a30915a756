package gopeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// carrier makes the connections of a peer that is written for package net.
type carrier struct {
	// listen returns a listener on a host's address, and the text that a client needs to dial
	// it.
	listen func(ctx context.Context, addr string) (l net.Listener, at string, err error)

	// open returns a dialer for that text, and a function that ends it.
	open func(ctx context.Context, at string) (dial dialer, end func() error, err error)
}

// serving returns the serve function of a Peer. It serves all connections of a listener.
func (c *carrier) serving(serve func(l net.Listener) error) func(context.Context, string, func(string) error) error {
	return func(ctx context.Context, addr string, ready func(string) error) error {
		l, at, err := c.listen(ctx, addr)
		if err != nil {
			return err
		}
		if err := ready(at); err != nil {
			return err
		}
		return serve(l)
	}
}

type dialer func(ctx context.Context) (net.Conn, error)

// overTCP returns a carrier of kernel connections with a named congestion control; "" is the
// kernel's choice.
func overTCP(congestion string) *carrier {
	return &carrier{
		listen: func(ctx context.Context, addr string) (net.Listener, string, error) {
			var lc net.ListenConfig
			if congestion != "" {
				lc.Control = control(congestion)
			}
			l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(addr, "0"))
			if err != nil {
				return nil, "", err
			}
			return l, l.Addr().String(), nil
		},
		open: func(_ context.Context, at string) (dialer, func() error, error) {
			var d net.Dialer
			if congestion != "" {
				d.Control = control(congestion)
			}
			return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", at) },
				func() error { return nil }, nil
		},
	}
}

// weftServer is the process that serves streams, and weftService is its service.
var weftServer = weft.Name{App: "peer"}

const weftService = "peer"

// overWeft returns a carrier of streams between processes with embedded NICs. Their links are
// plain, at addresses of the two hosts: the peers that it is compared with are plain, too.
func overWeft(link func(addr string) weft.Link) *carrier {
	return &carrier{
		listen: func(ctx context.Context, addr string) (net.Listener, string, error) {
			p, err := weft.Open(ctx, weft.Config{Name: weftServer, Plain: true,
				Link: link(net.JoinHostPort(addr, "0"))})
			if err != nil {
				return nil, "", err
			}
			l, err := stream.Listen(p, weftService)
			if err != nil {
				return nil, "", errors.Join(err, p.Close())
			}
			return l, p.NIC().Addr(), nil
		},
		open: func(ctx context.Context, at string) (dialer, func() error, error) {
			here, err := addressTowards(ctx, at)
			if err != nil {
				return nil, nil, err
			}
			p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "client"}, Plain: true,
				Link: link(netip.AddrPortFrom(here, 0).String()), Nodes: []weft.Node{{Addr: at}}})
			if err != nil {
				return nil, nil, err
			}
			d := &stream.Dialer{Process: p}
			return func(ctx context.Context) (net.Conn, error) {
				if _, err := p.WaitName(ctx, weftServer); err != nil {
					return nil, err
				}
				return d.Dial(ctx, stream.Addr{Process: weftServer, Service: weftService}.String())
			}, p.Close, nil
		},
	}
}

// addressTowards returns this host's address on the path to another host.
func addressTowards(ctx context.Context, at string) (netip.Addr, error) {
	c, err := new(net.Dialer).DialContext(ctx, "udp", at) // it sends nothing
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the way to %s: %w", at, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), nil
}
