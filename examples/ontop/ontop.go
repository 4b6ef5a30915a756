// Package ontop runs clients that were written for TCP on streams of Weft, unchanged: gRPC,
// Redis and PostgreSQL. Each only gets a function that dials.
//
//	program            client library   what it dials               server
//	Go, on the fabric  gRPC ──────────► stream ───────────────────► stream.Listen
//
//	program            client library   what it dials               server
//	Go, on the fabric  gRPC ──────────► stream ───────────────────► stream.Listen
//	Go, on the fabric  go-redis, pgx ─► stream ─────► weft proxy ─► redis-server, postgres
//	any other          its own ───────► weft proxy ─► weft proxy ─► redis-server, postgres
//
// The tests run the libraries' own tests, the servers' own clients and their own benchmarks.
package ontop

import (
	"context"
	"database/sql"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftnet/weft/stream"
)

// GRPC returns a client of the gRPC server at an address of the fabric, such as app/0:grpc. The
// server is grpc.NewServer().Serve of a [stream.Listener].
func GRPC(d *stream.Dialer, address string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return d.DialContext(ctx, "weft", address)
		}),
	}, more...)...)
}

// Redis returns a client of the Redis server at an address of the fabric.
func Redis(d *stream.Dialer, address string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, Dialer: d.DialContext})
}

// SQL returns the database of the PostgreSQL server at an address of the fabric. settings has the
// form "user=weft dbname=stock".
func SQL(d *stream.Dialer, address, settings string) (*sql.DB, error) {
	c, err := pgx.ParseConfig("host=weft sslmode=disable " + settings)
	if err != nil {
		return nil, err
	}
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, address)
	}
	return stdlib.OpenDB(*c), nil
}
