package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/bench/limit"
)

const (
	// patience is how long our own programs have to find one another, on a busy machine too.
	patience = time.Minute

	// answerWithin is how long a server has to answer that the user was to start.
	answerWithin = 5 * time.Second
)

// Run sets up two processes as o says, makes the measurements, and passes each row to out.
func Run(ctx context.Context, o Options, out func(Row) error) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	var down undo
	defer down.end(ctx, &err)
	r := rounds{o: &o}
	for _, l := range o.eachLinks() {
		s, err := down.side(ctx, l)
		if err != nil {
			return err
		}
		r.links = append(r.links, &linked{o: l, side: s})
	}
	if o.Against {
		if r.ground, err = limit.NewGround(o.Self, o.mtu(), o.Veth); err != nil {
			return err
		}
		down.add(r.ground.Close)
	}
	for _, size := range o.Sizes {
		if err := r.size(ctx, size, out); err != nil {
			return err
		}
	}
	return nil
}

// eachLinks returns the options of each measured kind of links: plain links first.
func (o *Options) eachLinks() []*Options {
	if !o.BothLinks {
		return []*Options{o}
	}
	plain, sealed := *o, *o
	plain.Sealed, sealed.Sealed = false, true
	return []*Options{&plain, &sealed}
}

// side returns the side with the clock, with a server within its reach.
func (u *undo) side(ctx context.Context, o *Options) (side, error) {
	if o.Veth || o.Apart && o.Link != LinkMem {
		c, _, err := u.apart(ctx, o)
		return c, err
	}
	return u.here(ctx, o)
}

// here returns the client of a pair of processes on this host. The client is in this process.
func (u *undo) here(ctx context.Context, o *Options) (*Client, error) {
	p, err := u.pair(ctx, o)
	if err != nil {
		return nil, err
	}
	c := NewClient(p, ServerName)
	// otherwise the server is on this host
	if at, err := netip.ParseAddrPort(o.Host); err == nil {
		c.host = at.Addr().String()
	}
	return c, nil
}

// pair makes the client's process, with a server within its reach.
func (u *undo) pair(ctx context.Context, o *Options) (*weft.Process, error) {
	if o.Link == LinkMem {
		return u.inMemory(ctx)
	}
	addr := o.Host
	if addr == "" {
		at, err := u.meetingPlace(ctx, o)
		if err != nil {
			return nil, err
		}
		if addr, err = u.startServer(ctx, newChild(o.Self, o.arguments("--serve", "--listen", at)...)); err != nil {
			return nil, err
		}
	}
	listen := o.anyAddress()
	if o.Deployment == DeployedShared {
		listen = addr
	}
	if joins[o.Link] == "" {
		ip, err := ownAddress(addr)
		if err != nil {
			return nil, err
		}
		listen = net.JoinHostPort(ip, "0")
	}
	p, _, err := u.open(ctx, place{
		self: o.Self, deployment: o.Deployment, link: o.Link, name: ClientName, listen: listen,
		nodes: []weft.Node{{Addr: addr}}, sealing: o.Sealing,
	})
	if err != nil {
		return nil, err
	}
	return p, o.meet(ctx, p, addr)
}

// meet waits until p knows the server at addr.
func (o *Options) meet(ctx context.Context, p *weft.Process, addr string) error {
	ours, within := o.Host == "" || o.Started, patience
	if !ours {
		within = answerWithin
	}
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := p.WaitName(wait, ServerName)
	switch {
	case err == nil:
		return nil
	case ours:
		return fmt.Errorf("bench: the far side, started at %s, was lost: %w", addr, err)
	}
	return fmt.Errorf("bench: no server answers at %s; `weft bench %s --serve` starts one there: %w", addr, o.Kind, err)
}

// ownAddress returns the address of this host to which a peer's answers come. It sends no packet
// to find it.
func ownAddress(peer string) (string, error) {
	c, err := net.Dial("udp", peer)
	if err != nil {
		return "", fmt.Errorf("bench: no way to %s: %w", peer, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// inMemory makes both sides in this process, joined by memory.
func (u *undo) inMemory(ctx context.Context) (*weft.Process, error) {
	p, err := u.localPair(ctx, LinkMem, weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		return nil, err
	}
	return p.client.p, nil
}

// ServeHost serves clients of other hosts until ctx ends. Its NIC is as o says, and listens at
// an address. ServeHost calls ready with the address once clients may come.
func ServeHost(ctx context.Context, o Options, listen string, ready func(addr string) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	p, addr, err := down.open(ctx, place{self: o.Self, deployment: o.Deployment, link: o.Link, name: ServerName,
		listen: listen, sealing: o.Sealing})
	if err != nil {
		return err
	}
	if err := ready(addr); err != nil {
		return err
	}
	return Serve(ctx, p, Setup{o.Link, o.Deployment})
}

// undo holds functions that undo the setup. They run in reverse order.
type undo []func() error

func (u *undo) add(f func() error) { *u = append(*u, f) }

// end ends every measurement: it undoes the setup, and adds the errors to *err.
func (u *undo) end(ctx context.Context, err *error) {
	if *err = errors.Join(*err, u.all()); ctx.Err() != nil {
		*err = context.Cause(ctx) // all other errors come of it
	}
}

func (u *undo) all() error {
	var errs []error
	for i := len(*u) - 1; i >= 0; i-- {
		errs = append(errs, (*u)[i]())
	}
	*u = nil
	return errors.Join(errs...)
}
