package gopeer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

func init() {
	all = append(all,
		&Peer{Name: "grpc-go", Kind: "grpc", Most: maxSize, Measures: everything, Clean: true,
			serve: serveGRPC(overTCP("")), dial: dialGRPC(overTCP("")), Notes: grpcNotes},
		&Peer{Name: "grpc-go, TLS", Kind: "grpc-tls", Most: maxSize, Measures: everything, Clean: true, Sealed: true,
			serve: serveSealedGRPC(overTCP("")), dial: dialSealedGRPC(overTCP("")), Notes: grpcTLSNotes})
}

var grpcNotes = map[string]string{contest.Latency: "unary calls", contest.Rate: "one stream of messages",
	contest.Bandwidth: "one stream of messages"}

var grpcTLSNotes = map[string]string{contest.Latency: "unary calls; TLS 1.3, AES-128-GCM",
	contest.Rate:      "one stream of messages; TLS 1.3, AES-128-GCM",
	contest.Bandwidth: "one stream of messages; TLS 1.3, AES-128-GCM"}

// rawCodec carries bytes unchanged: the transport is measured, and not protocol buffers.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], data...)
	return nil
}

const (
	grpcService = "weft.bench.Peer"
	grpcEcho    = "/" + grpcService + "/Echo"
	grpcPour    = "/" + grpcService + "/Pour"
)

// pourDesc is a stream of messages from the client, answered by their count.
var pourDesc = grpc.StreamDesc{StreamName: "Pour", ClientStreams: true,
	Handler: func(_ any, s grpc.ServerStream) error {
		var message []byte
		for count := uint64(0); ; count++ {
			switch err := s.RecvMsg(&message); {
			case errors.Is(err, io.EOF):
				answer := binary.BigEndian.AppendUint64(nil, count)
				return s.SendMsg(&answer)
			case err != nil:
				return err
			}
		}
	}}

var grpcDesc = grpc.ServiceDesc{
	ServiceName: grpcService,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var message []byte
			err := decode(&message)
			return &message, err
		}}},
	Streams: []grpc.StreamDesc{pourDesc},
}

func serveGRPC(c *carrier) func(context.Context, string, func(string) error) error {
	return serveGRPCWith(c, func() (credentials.TransportCredentials, error) { return insecure.NewCredentials(), nil })
}

func serveSealedGRPC(c *carrier) func(context.Context, string, func(string) error) error {
	return serveGRPCWith(c, func() (credentials.TransportCredentials, error) {
		config, err := serverTLS()
		return credentials.NewTLS(config), err
	})
}

// serveGRPCWith serves calls. It makes the server's credentials when the server starts.
func serveGRPCWith(
	c *carrier, credentialsOf func() (credentials.TransportCredentials, error),
) func(context.Context, string, func(string) error) error {
	return c.serving(func(l net.Listener) error {
		creds, err := credentialsOf()
		if err != nil {
			return err
		}
		s := grpc.NewServer(grpc.Creds(creds), grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(maxSize),
			grpc.MaxSendMsgSize(maxSize))
		s.RegisterService(&grpcDesc, struct{}{})
		return s.Serve(l)
	})
}

// calls is a conn by gRPC.
type calls struct {
	*grpc.ClientConn
	ctx    context.Context
	end    func() error
	answer []byte
}

func dialGRPC(c *carrier) func(context.Context, string) (conn, error) {
	return dialGRPCWith(c, insecure.NewCredentials())
}

func dialSealedGRPC(c *carrier) func(context.Context, string) (conn, error) {
	return dialGRPCWith(c, credentials.NewTLS(clientTLS()))
}

func dialGRPCWith(c *carrier, creds credentials.TransportCredentials) func(context.Context, string) (conn, error) {
	return func(ctx context.Context, at string) (conn, error) {
		dial, end, err := c.open(ctx, at)
		if err != nil {
			return nil, err
		}
		client, err := grpc.NewClient("passthrough:///peer", grpc.WithTransportCredentials(creds),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(maxSize),
				grpc.MaxCallSendMsgSize(maxSize)))
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return &calls{ClientConn: client, ctx: ctx, end: end}, nil
	}
}

func (c *calls) echo(message []byte) error {
	if err := c.Invoke(c.ctx, grpcEcho, &message, &c.answer); err != nil {
		return err
	}
	if len(c.answer) != len(message) {
		return fmt.Errorf("an echo of %d bytes, expected %d", len(c.answer), len(message))
	}
	return nil
}

func (c *calls) pour(message []byte, more func() bool) (int64, error) {
	s, err := c.NewStream(c.ctx, &pourDesc, grpcPour)
	if err != nil {
		return 0, err
	}
	for last := false; !last; {
		last = !more()
		if err := s.SendMsg(&message); err != nil {
			return 0, errors.Join(err, s.RecvMsg(&c.answer)) // it returns the cause
		}
	}
	if err := s.CloseSend(); err != nil {
		return 0, err
	}
	if err := s.RecvMsg(&c.answer); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(c.answer)), nil
}

func (c *calls) close() error { return errors.Join(c.Close(), c.end()) }
