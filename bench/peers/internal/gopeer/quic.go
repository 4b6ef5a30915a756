package gopeer

import (
	"context"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

func init() {
	all = append(all, &Peer{Name: "quic-go", Kind: "quic", Most: maxSize, Measures: everything, Clean: true,
		Lossy: true, Sealed: true, serve: serveQUIC, dial: dialQUIC,
		Notes: map[string]string{contest.Latency: "one stream; always encrypted",
			contest.Rate: "one stream; always encrypted", contest.Bandwidth: "one stream; always encrypted"}})
}

// quicProtocol is the protocol of the two sides in their handshake.
const quicProtocol = "weft-bench"

func serveQUIC(ctx context.Context, addr string, ready func(string) error) error {
	config, err := serverTLS(quicProtocol)
	if err != nil {
		return err
	}
	l, err := quic.ListenAddr(net.JoinHostPort(addr, "0"), config, nil)
	if err != nil {
		return err
	}
	if err := ready(l.Addr().String()); err != nil {
		return err
	}
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			s, err := c.AcceptStream(ctx)
			if err == nil {
				_ = serveStream(s) // the client reports the error
			}
		}()
	}
}

// quicStream is a stream with its connection.
type quicStream struct {
	*quic.Stream
	c *quic.Conn
}

func (s quicStream) Close() error { return s.c.CloseWithError(0, "") }

func dialQUIC(ctx context.Context, addr string) (conn, error) {
	c, err := quic.DialAddr(ctx, addr, clientTLS(quicProtocol), nil)
	if err != nil {
		return nil, err
	}
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	return &byteStream{rw: quicStream{s, c}, end: func() error { return nil }}, nil
}
