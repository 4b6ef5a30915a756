package gopeer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

func init() {
	all = append(all, &Peer{Name: "NATS", Kind: "nats", Most: maxSize, Measures: everything, Clean: true,
		serve: serveNATS, dial: dialNATS,
		Notes: map[string]string{contest.Latency: "request and reply by way of the server, " +
			"which is in the responder's process"}})
}

const (
	natsSubject = "weft.bench"

	natsPatience = 10 * time.Second // for an answer
)

// serveNATS runs an embedded NATS server, and the client that answers. Its connection to the
// server is within the process, which is NATS's shortest path.
func serveNATS(ctx context.Context, addr string, ready func(string) error) error {
	s, err := server.NewServer(&server.Options{Host: addr, Port: server.RANDOM_PORT, MaxPayload: maxSize, NoSigs: true,
		NoLog: true})
	if err != nil {
		return err
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(natsPatience) {
		return fmt.Errorf("the NATS server is not ready after %v", natsPatience)
	}
	c, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer c.Close()
	count := uint64(0)
	sub, err := c.Subscribe(natsSubject, func(m *nats.Msg) {
		switch m.Data[0] {
		case byteEcho:
			_ = m.Respond(m.Data) // the requester reports a missing answer
		case byteData:
			count++
		case byteLast:
			_ = m.Respond(binary.BigEndian.AppendUint64(nil, count+1))
			count = 0
		}
	})
	if err != nil {
		return err
	}
	if err := errors.Join(sub.SetPendingLimits(-1, -1), c.Flush()); err != nil {
		return err
	}
	if err := ready(net.JoinHostPort(addr, fmt.Sprint(s.Addr().(*net.TCPAddr).Port))); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// requests is a conn by NATS.
type requests struct{ *nats.Conn }

func dialNATS(_ context.Context, addr string) (conn, error) {
	c, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, err
	}
	return requests{c}, nil
}

func (r requests) echo(message []byte) error {
	m, err := r.Request(natsSubject, message, natsPatience)
	if err == nil && len(m.Data) != len(message) {
		err = fmt.Errorf("an echo of %d bytes, expected %d", len(m.Data), len(message))
	}
	return err
}

func (r requests) pour(message []byte, more func() bool) (int64, error) {
	message[0] = byteData
	for more() {
		if err := r.Publish(natsSubject, message); err != nil {
			return 0, err
		}
	}
	message[0] = byteLast
	m, err := r.Request(natsSubject, message, natsPatience)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(m.Data)), nil
}

func (r requests) close() error {
	r.Close()
	return nil
}
