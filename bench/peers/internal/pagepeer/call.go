package pagepeer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/weftnet/weft"
)

// callServer is the process that answers calls. The tag of a call is the number of a page. A
// call with a page stores it, and an empty call gets it as the answer.
var callServer = weft.Name{App: "calls"}

// ServeCalls runs that process: it prints its address, and answers until it is killed.
func ServeCalls(ctx context.Context, prefix, addr string, out io.Writer) error {
	link, err := weft.ParseLink(prefix + net.JoinHostPort(addr, "0"))
	if err != nil {
		return err
	}
	p, err := weft.Open(ctx, weft.Config{Name: callServer, Plain: true, Link: link})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, p.NIC().Addr()); err != nil {
		return errors.Join(err, p.Close())
	}
	return errors.Join(answerCalls(ctx, p), p.Close())
}

// answerCalls answers calls one at a time: Reply returns when the page is at the caller's NIC.
func answerCalls(ctx context.Context, p *weft.Process) error {
	kept, page := make([]byte, pages*pageBytes), make([]byte, pageBytes)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, page)
		if err != nil {
			return err
		}
		if !m.IsCall() || m.Tag >= pages {
			continue
		}
		at := kept[m.Tag*pageBytes:][:pageBytes]
		answer := at
		if m.Len == pageBytes {
			copy(at, page)
			answer = nil
		}
		if err := p.Reply(ctx, m, answer); err != nil {
			return err
		}
	}
}

// callStore is a client of callServer.
type callStore struct{ p *weft.Process }

func openCalls(l Link) func(ctx context.Context, here, server string) (store, error) {
	return func(ctx context.Context, here, server string) (store, error) {
		p, err := join(ctx, l, here, server, callServer)
		if err != nil {
			return nil, err
		}
		return &callStore{p}, nil
	}
}

func (s *callStore) put(ctx context.Context, number uint64, page []byte) error {
	_, err := s.p.Peer(callServer).Call(ctx, weft.Tag(number), page, nil)
	return err
}

func (s *callStore) get(ctx context.Context, number uint64, page []byte) error {
	m, err := s.p.Peer(callServer).Call(ctx, weft.Tag(number), nil, page)
	if err == nil && m.Len != len(page) {
		err = fmt.Errorf("a call is answered with %d bytes: expected %d", m.Len, len(page))
	}
	return err
}

func (s *callStore) reader(context.Context) (reader, error) { return s, nil }

func (s *callStore) close() error { return s.p.Close() }
