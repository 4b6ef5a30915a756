package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// Carriers of bytes between two processes with NICs.
const (
	CarriedByMessages = "message" // round trips are calls
	CarriedByStreams  = "stream"
)

// CarriedBy lists the carriers of bytes.
func CarriedBy() []string { return []string{CarriedByMessages, CarriedByStreams} }

// carrierPlan is one of two processes between which Weft, TCP or TLS carries bytes. The server
// prints its address. The client answers questions.
type carrierPlan struct {
	Against    string // AgainstTCP or AgainstTLS; empty: this is Weft
	Deployment string
	Link       string
	Listen     string
	Self       string
	Sealing
	// the line that the server printed; empty: this is the server
	Server json.RawMessage `json:",omitempty"`
}

// carrierAt holds the addresses of a server.
type carrierAt struct {
	NIC  string `json:",omitempty"`
	TCP  string `json:",omitempty"`
	Cert []byte `json:",omitempty"`
}

// carrierQuestion asks for round trips, or for writes one way.
type carrierQuestion struct {
	Over    string
	Echo    bool
	Size    int // bytes of a round trip, each way, or of a write
	Streams int
	Time    time.Duration
}

// carrierAnswer holds the durations of the round trips, or the rate of the bytes that arrived.
type carrierAnswer struct {
	Times          *times
	BytesPerSecond float64
}

// carrierService is the service of the server's streams.
const carrierService = "carrier"

// run runs the whole process.
func (p *carrierPlan) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	if len(p.Server) == 0 {
		ctx = EndWithInput(ctx, in)
		at, err := p.serve(ctx, &down)
		if err == nil {
			err = json.NewEncoder(out).Encode(at)
		}
		if err == nil {
			<-ctx.Done()
		}
		return err
	}
	var at carrierAt
	if err := json.Unmarshal(p.Server, &at); err != nil {
		return fmt.Errorf("bench: where the server is: %w", err)
	}
	c, err := p.dial(ctx, &down, at)
	if err != nil {
		return err
	}
	return answerAll(in, out, func(q carrierQuestion) (any, error) { return c.answer(ctx, q) })
}

// serve starts the server.
func (p *carrierPlan) serve(ctx context.Context, down *undo) (at carrierAt, err error) {
	if p.Against != "" {
		l, err := net.Listen("tcp", p.Listen)
		if err != nil {
			return at, err
		}
		down.add(l.Close)
		at.TCP = l.Addr().String()
		if p.Against == AgainstTLS {
			cert, err := newCertificate()
			if err != nil {
				return at, err
			}
			at.Cert = cert.Certificate[0]
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
		}
		go serveConns(l)
		return at, nil
	}
	proc, addr, err := down.open(ctx, place{self: p.Self, deployment: p.Deployment, link: p.Link, name: ServerName,
		listen: p.Listen, sealing: p.Sealing})
	if err != nil {
		return at, err
	}
	l, err := stream.Listen(proc, carrierService)
	if err != nil {
		return at, err
	}
	down.add(l.Close)
	go serveConns(l)
	serveMessages(ctx, proc)
	return carrierAt{NIC: addr}, nil
}

// carrier is the client's side.
type carrier struct {
	dial func(ctx context.Context) (net.Conn, error)
	p    *weft.Process // nil with TCP
}

// dial connects to the server.
func (p *carrierPlan) dial(ctx context.Context, down *undo, at carrierAt) (*carrier, error) {
	switch p.Against {
	case AgainstTCP:
		return &carrier{dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", at.TCP)
		}}, nil
	case AgainstTLS:
		d, err := trusting(at.Cert)
		if err != nil {
			return nil, err
		}
		return &carrier{dial: func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", at.TCP) }},
			nil
	}
	proc, _, err := down.open(ctx, place{self: p.Self, deployment: p.Deployment, link: p.Link, name: ClientName,
		listen: p.Listen,
		nodes:  []weft.Node{{Addr: at.NIC}}, sealing: p.Sealing})
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := proc.WaitName(wait, ServerName); err != nil {
		return nil, err
	}
	d := stream.Dialer{Process: proc}
	service := ServerName.String() + ":" + carrierService
	return &carrier{p: proc,
		dial: func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "", service) }}, nil
}

// answer answers a question. All carriers except messages are connections, which share the code.
func (c *carrier) answer(ctx context.Context, q carrierQuestion) (carrierAnswer, error) {
	if c.p != nil && q.Over == CarriedByMessages {
		return c.byMessages(ctx, q)
	}
	return c.byConns(ctx, q)
}
