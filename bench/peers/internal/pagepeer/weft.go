package pagepeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/netmem"
)

// Links returns the links of Weft's contestants.
func Links() []Link { return []Link{{"udp", ""}, {"xdp", "xdp:"}} }

// Link is a link by its name, with the prefix of its addresses.
type Link struct{ Name, Prefix string }

// PageServer is the name of the page server.
var PageServer = weft.Name{App: "mem"}

const patience = 10 * time.Second // bounds the search for the server

// onWeft returns the peers of Weft for each link: network memory, and calls that a page answers.
func onWeft() (peers []*Peer) {
	for _, l := range Links() {
		peers = append(peers,
			&Peer{Name: "Weft, page-in, " + l.Name, Kind: "weft-" + l.Name,
				Measures: []string{contest.Latency, contest.Reads, contest.Bandwidth}, open: openPages(l),
				Notes: map[string]string{contest.Bandwidth: "a volume reads ahead, 4 KiB a call"}},
			&Peer{Name: "Weft, call, " + l.Name, Kind: "weft-call-" + l.Name, Measures: []string{contest.Latency},
				open: openCalls(l),
				Notes: map[string]string{contest.Latency: "a call that 4 KiB answer, with no page server, " +
					"from a process of one goroutine"}})
	}
	return peers
}

// join makes a process on a host. Its embedded NIC knows the server's over a plain link. join
// waits for the server.
func join(ctx context.Context, l Link, here, at string, server weft.Name) (*weft.Process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("no server %v at %s within %v", server, at, patience))
	defer cancel()
	link, err := weft.ParseLink(l.Prefix + net.JoinHostPort(here, "0"))
	if err != nil {
		return nil, err
	}
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "client"}, Plain: true, Link: link,
		Nodes: []weft.Node{{Addr: at}}})
	if err != nil {
		return nil, err
	}
	if _, err := p.WaitName(ctx, server); err != nil {
		return nil, errors.Join(err, context.Cause(ctx), p.Close())
	}
	return p, nil
}

// pageStore is a client of network memory.
type pageStore struct {
	p *weft.Process
	*netmem.Client
	volume *netmem.Volume // nil: not made yet
}

func openPages(l Link) func(ctx context.Context, here, server string) (store, error) {
	return func(ctx context.Context, here, server string) (store, error) {
		p, err := join(ctx, l, here, server, PageServer)
		if err != nil {
			return nil, err
		}
		c, err := netmem.NewClient(ctx, p, netmem.ClientConfig{Servers: pageServers()})
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return &pageStore{p: p, Client: c}, nil
	}
}

func pageServers() []netmem.ServerRef { return []netmem.ServerRef{{Name: PageServer}} }

func (s *pageStore) put(ctx context.Context, number uint64, page []byte) error {
	return s.WritePage(ctx, number, page)
}

func (s *pageStore) get(ctx context.Context, number uint64, page []byte) error {
	return s.ReadPage(ctx, number, page)
}

func (s *pageStore) getMany(
	ctx context.Context, depth int, next func() (uint64, []byte, bool), ended func(uint64, []byte, error),
) error {
	return s.ReadPages(ctx, depth, next, ended)
}

func (s *pageStore) reader(context.Context) (reader, error) { return s, nil }

// sequence opens a volume with its own pages, by another process of the same NIC: a process has
// one client.
func (s *pageStore) sequence(ctx context.Context) (reader, error) {
	if s.volume != nil {
		return volumeReader{s.volume}, nil
	}
	other, err := s.p.NIC().Attach(ctx, weft.Name{App: "client", Index: 1})
	if err != nil {
		return nil, err
	}
	v, err := netmem.Open(ctx, other, netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: pageServers()},
		Bytes: pages * pageBytes})
	if err != nil {
		return nil, err
	}
	s.volume = v
	image := make([]byte, pages*pageBytes)
	for n := range uint64(pages) {
		mark(image[n*pageBytes:(n+1)*pageBytes], n)
	}
	if _, err := v.WriteAtContext(ctx, image, 0); err != nil {
		return nil, err
	}
	return volumeReader{v}, nil
}

func (s *pageStore) close() error {
	if s.volume != nil {
		s.volume.Close()
	}
	s.Client.Close()
	return s.p.Close()
}

// volumeReader reads a volume page by page.
type volumeReader struct{ *netmem.Volume }

func (v volumeReader) get(ctx context.Context, number uint64, page []byte) error {
	_, err := v.ReadAtContext(ctx, page, int64(number)*pageBytes)
	return err
}
