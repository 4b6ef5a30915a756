package ontop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/testenv"
)

// lossy is two hosts with a cable that loses 1 % of the frames.
type lossy struct{ client, server place }

func newLossy(t *testing.T) lossy {
	t.Helper()
	tb, err := testbed.New(testbed.Config{Hosts: 2, Loss: 0.01})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tb.Close() })
	at := func(i int) place {
		h := tb.Host(i)
		return place{h.Addr().String(), func(ctx context.Context, name string, args ...string) (*exec.Cmd, func() error) {
			c := h.Command(ctx, name, args...)
			return c.Cmd, c.Start
		}}
	}
	return lossy{at(0), at(1)}
}

// through returns an address on the client's host that leads to the server through two proxies.
func (l lossy) through(t *testing.T, service, server string) string {
	t.Helper()
	port := func() string {
		n, err := testenv.TakePort()
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n)
	}
	nic, address := net.JoinHostPort(l.server.ip, port()), net.JoinHostPort("127.0.0.1", port())
	l.server.proxy(t, "--from", service, "--to", server, "--listen", nic)
	l.client.proxy(t, "--from", address, "--to", service, "--listen", net.JoinHostPort(l.client.ip, port()), "--node", nic)
	return address
}

// contest runs a measuring program against the server by TCP and through the proxies, in turns,
// and logs the ratio of the medians.
func contest(t *testing.T, what, tcp, proxied string, measure func(address string) float64) {
	t.Helper()
	rounds := 1
	if *long {
		rounds = 3
	}
	var by, past []float64
	for range rounds {
		past = append(past, measure(tcp))
		by = append(by, measure(proxied))
	}
	slices.Sort(by)
	slices.Sort(past)
	a, b := by[rounds/2], past[rounds/2]
	t.Logf("%s: %.0f/s through the proxies, %.0f/s by TCP: %.2f ×", what, a, b, a/b)
}

func TestRedisBenchmarkRunsThroughProxiesAndLoss(t *testing.T) {
	name, err := exec.LookPath("redis-benchmark")
	if err != nil {
		t.Skip(err)
	}
	l := newLossy(t)
	server := l.server.redisServer(t)
	proxied := l.through(t, "redis/0:redis", server)
	for _, pipeline := range []int{1, 16} {
		for _, command := range []string{"get", "set"} {
			n := 500 * pipeline
			if *long {
				n = 5000 * pipeline
			}
			contest(t, fmt.Sprintf("%s, %d at a time", command, pipeline), server, proxied, func(address string) float64 {
				host, port, _ := net.SplitHostPort(address)
				out := l.client.run(t, nil, name, "-h", host, "-p", port, "-t", command, "-n", strconv.Itoa(n), "-P", strconv.Itoa(pipeline), "--csv")
				return redisRate(t, out)
			})
		}
	}
}

// redisRate returns the requests per second in the output of redis-benchmark, such as
//
//	"test","rps","avg_latency_ms",…
//	"GET","70000.00","0.4",…
func redisRate(t *testing.T, out string) float64 {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	f := strings.Split(lines[len(lines)-1], `","`)
	if len(f) < 3 {
		t.Fatalf("redis-benchmark has printed\n%s", out)
	}
	rate, err := strconv.ParseFloat(f[1], 64)
	if err != nil || rate <= 0 {
		t.Fatalf("redis-benchmark has printed\n%s", out)
	}
	return rate
}

func TestPgbenchRunsThroughProxiesAndLoss(t *testing.T) {
	name := postgresTool(t, "pgbench")
	l := newLossy(t)
	server := l.server.postgres(t)
	proxied := l.through(t, "db/0:postgres", server)
	at := func(address string, args ...string) []string {
		host, port, _ := net.SplitHostPort(address)
		return append([]string{"-h", host, "-p", port, "-U", "weft"}, append(args, "postgres")...)
	}
	l.server.run(t, nil, name, at(server, "-i", "-q")...)
	n := 50
	if *long {
		n = 500
	}
	contest(t, "pgbench -S", server, proxied, func(address string) float64 {
		out := l.client.run(t, nil, name, at(address, "-S", "-n", "-c", "8", "-j", "2", "-t", strconv.Itoa(n))...)
		done := fmt.Sprintf("number of transactions actually processed: %d/%d", 8*n, 8*n)
		_, after, ok := strings.Cut(out, "tps = ")
		figure, _, _ := strings.Cut(after, " ")
		rate, err := strconv.ParseFloat(figure, 64)
		if !ok || err != nil || rate <= 0 || !strings.Contains(out, done) {
			t.Fatalf("pgbench has printed\n%s", out)
		}
		return rate
	})
}
