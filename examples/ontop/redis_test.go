package ontop_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weftnet/weft/examples/ontop"
	"github.com/weftnet/weft/internal/testenv"
)

// redisServer runs redis-server, and returns its address.
func (p place) redisServer(t *testing.T) string {
	t.Helper()
	name, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip(err)
	}
	_, port, err := net.SplitHostPort(testenv.Loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	p.serve(t, "Ready to accept connections", nil, name, "--port", port, "--bind", p.ip, "--save", "", "--appendonly", "no", "--protected-mode", "no")
	return net.JoinHostPort(p.ip, port)
}

func TestRedis(t *testing.T) {
	server := here.redisServer(t)
	ways := map[string]*redis.Client{
		"a stream and a proxy": ontop.Redis(behind(t, "redis/0:redis", server), "redis/0:redis"),
		"two proxies":          redis.NewClient(&redis.Options{Addr: through(t, "cache/0:redis", server)}),
	}
	for name, c := range ways {
		t.Run(name, func(t *testing.T) {
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := c.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			large := strings.Repeat("a value of a megabyte, ", 1<<20/23)
			if err := c.Set(ctx, "large", large, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Get(ctx, "large").Result(); err != nil || got != large {
				t.Errorf("%d of %d bytes come back: %v", len(got), len(large), err)
			}
			replies, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for range 1000 {
					p.Incr(ctx, "n")
				}
				return nil
			})
			if err != nil || len(replies) != 1000 || replies[999].(*redis.IntCmd).Val() != 1000 {
				t.Errorf("%d replies of a pipeline, %v", len(replies), err)
			}
			if _, err := c.Get(ctx, "nothing").Result(); !errors.Is(err, redis.Nil) {
				t.Errorf("a key that is not there: %v", err)
			}
			wakesAnother(ctx, t, c)
		})
	}
}

// wakesAnother makes calls wait at the server for the messages of other clients: a subscriber,
// and a pop from a list.
func wakesAnother(ctx context.Context, t *testing.T, c *redis.Client) {
	s := c.Subscribe(ctx, "news")
	defer s.Close()
	if _, err := s.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	popped := make(chan error, 1)
	go func() { popped <- c.BLPop(ctx, 0*time.Second, "queue").Err() }()
	if n, err := c.Publish(ctx, "news", "now").Result(); err != nil || n != 1 {
		t.Errorf("%d subscribers, %v", n, err)
	}
	if m, err := s.ReceiveMessage(ctx); err != nil || m.Payload != "now" {
		t.Errorf("a subscriber gets %v, %v", m, err)
	}
	if err := c.RPush(ctx, "queue", "work").Err(); err != nil {
		t.Error(err)
	}
	if err := <-popped; err != nil {
		t.Error(err)
	}
}
