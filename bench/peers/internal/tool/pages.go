package tool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/ground"
	"github.com/weftnet/weft/bench/peers/internal/pagepeer"
	"github.com/weftnet/weft/internal/testenv"
)

// Pages is a server that keeps pages at one place, and its client at the other. The client is a
// process of this program.
type Pages struct {
	Self   string // this program
	Kind   string // of package pagepeer
	Server Server
}

// Server starts a server at place 1 of a site, and returns its address once it listens.
type Server func(ctx context.Context, s *ground.Site) (p *ground.Program, addr string, err error)

// Run does the jobs.
func (p *Pages) Run(ctx context.Context, s *ground.Site, jobs contest.Jobs) ([]contest.Sample, error) {
	server, addr, err := p.Server(ctx, s)
	if err != nil {
		return nil, err
	}
	defer server.End()
	out, err := s.Program(ctx, 0, p.Self, "child", "pages", p.Kind, s.Addr(0), addr, jobs.String()).Output()
	if err != nil {
		err = errors.Join(err, server.Failure())
	}
	samples, bad := parseSamples(out)
	return samples, errors.Join(err, bad)
}

// overTCP starts a program that listens at a TCP port. args returns its arguments for an address
// and a port.
func overTCP(name string, args func(addr, port string) []string) Server {
	return func(ctx context.Context, s *ground.Site) (*ground.Program, string, error) {
		port, err := testenv.TakePort()
		if err != nil {
			return nil, "", err
		}
		p := s.Program(ctx, 1, name, args(s.Addr(1), strconv.Itoa(port))...)
		if err := p.Start(); err != nil {
			return nil, "", err
		}
		if err := p.AwaitPort(ctx, "tcp", port); err != nil {
			p.End()
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		return p, net.JoinHostPort(s.Addr(1), strconv.Itoa(port)), nil
	}
}

// NewRedis returns an error if Redis is not installed. Redis keeps nothing on disk here.
func NewRedis() (Server, error) {
	return overTCP("redis-server", func(addr, port string) []string {
		return []string{"--bind", addr, "--port", port, "--protected-mode", "no", "--save", "", "--appendonly", "no"}
	}), need("redis-server", "redis-server")
}

// NewMemcached returns an error if memcached is not installed.
func NewMemcached() (Server, error) {
	return overTCP("memcached", func(addr, port string) []string {
		return []string{"-l", addr, "-p", port, "-u", "root"} // the user that root switches to
	}), need("memcached", "memcached")
}

// lent is the memory that a page server lends: several times what is put there.
const lent = "64MiB"

// PageServer returns `weft mem serve`.
func PageServer(weft string, link pagepeer.Link) Server {
	return func(ctx context.Context, s *ground.Site) (*ground.Program, string, error) {
		port, err := testenv.TakePort()
		if err != nil {
			return nil, "", err
		}
		addr := net.JoinHostPort(s.Addr(1), strconv.Itoa(port))
		p := s.Program(ctx, 1, weft, "mem", "serve", "--name", pagepeer.PageServer.String(), "--size", lent, "--listen",
			link.Prefix+addr, "--plain")
		_, err = p.StartServer()
		return p, addr, err
	}
}

// CallServer returns this program as a server of calls.
func CallServer(self string, link pagepeer.Link) Server {
	return func(ctx context.Context, s *ground.Site) (*ground.Program, string, error) {
		p := s.Program(ctx, 1, self, "child", "calls", link.Prefix, s.Addr(1))
		addr, err := p.StartServer()
		return p, addr, err
	}
}
