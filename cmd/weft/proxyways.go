package main

import (
	"context"
	"fmt"
	"net"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/stream"
)

// proxyWay is one --from with its --to.
type proxyWay struct {
	from, to string
	service  string // of from, if that is on the fabric
}

// completeWay checks a --from and its --to, and takes the name of the proxy from a service.
func (f *proxyFlags) completeWay(w *proxyWay, named bool) error {
	switch {
	case w.from == "" || w.to == "":
		return usagef("--from is %q and --to is %q: expected two addresses, such as 127.0.0.1:8080 and app/0:http",
			w.from, w.to)
	case onFabric(w.from) == onFabric(w.to):
		return usagef("--from %s and --to %s: expected one on the fabric, such as app/0:http, "+
			"and one on this host, such as 127.0.0.1:8080",
			w.from, w.to)
	case w.from == toFabric:
		return usagef("--from fabric: expected a service of a process, such as app/0:http; --to may be fabric")
	case !onFabric(w.from):
		if err := checkHostSide(w.from, false); err != nil {
			return usagef("--from %s: %v", w.from, err)
		}
		if w.to == toFabric {
			return nil
		}
		if _, err := stream.ParseAddr(w.to); err != nil {
			return usagef("%v", err)
		}
		return nil
	}
	if err := checkHostSide(w.to, true); err != nil {
		return usagef("--to %s: %v", w.to, err)
	}
	a, err := stream.ParseAddr(w.from)
	switch {
	case err != nil:
		return usagef("%v", err)
	case named:
		return usagef("--name with --from %s: expected one or the other, since --from already names the proxy %v",
			w.from, a.Process)
	case f.name.App != "" && f.name != a.Process:
		return usagef("--from %s beside services of %v: expected services of one process, since a proxy is one process",
			w.from, f.name)
	}
	f.name, w.service = a.Process, a.Service
	return nil
}

// closeDoor resolves the --from of a way. It returns an error if other hosts could enter the
// fabric by this way without a password.
func (f *proxyFlags) closeDoor(w *proxyWay) error {
	if onFabric(w.from) || hostNetwork(w.from) != "tcp" {
		return nil
	}
	resolved, off, err := resolveTCP(w.from)
	if err != nil {
		return fmt.Errorf("--from %s: %w", w.from, err)
	}
	if off && (f.auth == "" || w.to != toFabric) && !f.insecure {
		cure := "--auth FILE, or an address of 127.0.0.0/8, or --insecure"
		if w.to != toFabric {
			cure = "an address of 127.0.0.0/8, or --insecure"
		}
		return usagef("--from %s: other hosts could enter the fabric through it without a password; expected %s",
			w.from, cure)
	}
	w.from = resolved
	return nil
}

// join opens the ways of the proxy. If one fails, it closes the listeners of the others.
func (f *proxyFlags) join(p *fabric.Process, x *proxy.Proxy) error {
	for i := range f.ways {
		way, err := f.open(p, &f.ways[i])
		if err != nil {
			closeWays(x)
			return err
		}
		if i == 0 {
			x.Listener, x.Dial, x.Asks = way.Listener, way.Dial, way.Asks
		} else {
			x.More = append(x.More, way)
		}
	}
	return nil
}

// closeWays closes the listeners of a proxy that does not run.
func closeWays(x *proxy.Proxy) {
	if x.Listener != nil {
		x.Listener.Close()
	}
	for _, w := range x.More {
		w.Listener.Close()
	}
}

// open makes the two ends of a way.
func (f *proxyFlags) open(p *fabric.Process, w *proxyWay) (x proxy.Way, err error) {
	if w.service != "" {
		x.Dial = func(ctx context.Context, _ net.Conn) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, hostNetwork(w.to), w.to)
		}
		x.Listener, err = (&stream.ListenConfig{Process: p, KeepAlive: f.keepAlive,
			Patience: f.patience}).Listen(w.service)
		return x, err
	}
	d := &stream.Dialer{Process: p, Timeout: limits.ProxyDial, KeepAlive: f.keepAlive, Patience: f.patience}
	x.Dial = func(ctx context.Context, _ net.Conn) (net.Conn, error) {
		d := *d
		d.Requested = func() { proxy.Began(ctx) }
		return d.DialContext(ctx, "weft", w.to)
	}
	if w.to == toFabric {
		x.Asks = true
		asked := proxy.Asked
		if f.users != nil {
			asked = f.users.Asked
		}
		x.Dial = asked(func(ctx context.Context, host string, port uint16) (net.Conn, error) {
			to, err := stream.ParseHost(host, port)
			if err != nil {
				return nil, err
			}
			return d.DialContext(ctx, "weft", to.String())
		})
	}
	x.Listener, err = proxy.Listen(hostNetwork(w.from), w.from)
	return x, err
}
