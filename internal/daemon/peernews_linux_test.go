package daemon

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/file"
)

// logLines takes what a daemon logs, line by line.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// await waits for a line with a text.
func (l logLines) await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-late:
			t.Fatalf("the log has no line with %q", text)
		}
	}
}

// The log used to report peers up to a second late, since it looked for news once a second. Here
// no tick ever comes.
func TestThatAPeerComesOrGoesIsLoggedWithoutATick(t *testing.T) {
	log := make(logLines, 100)
	prepare := func(log io.Writer, nodes ...file.Entry) *Daemon {
		d, err := New(Config{Socket: filepath.Join(t.TempDir(), "nic.sock"), Listen: "127.0.0.1:0", Nodes: nodes}, log)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := prepare(log)
	second := prepare(io.Discard, file.Entry{Address: first.Addr().String()})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		for _, d := range []*Daemon{first, second} {
			if err := d.close(); err != nil {
				t.Error(err)
			}
		}
	})
	running.Go(func() { first.loop.Run(ctx) })
	running.Go(func() { first.watchPeers(ctx, nil) })
	running.Go(func() { second.loop.Run(ctx) })
	log.await(t, "peer is up")
	second.loop.Do(second.engine.Close)
	log.await(t, "peer is down")
}

// The metrics count the nodes of the last look. A node that is down and removed ends no session.
func TestARemovedNodeThatIsDownIsNotCountedAsAPeerAnyMore(t *testing.T) {
	node := file.Entry{Address: "127.0.0.8:1"} // never answers
	d := startWatched(t, 1, func(_ int, c *Config) {
		c.Nodes, c.UnreachableAfter = []file.Entry{node}, Duration(20*time.Millisecond)
	})[0]
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	t.Cleanup(looking.Wait)
	t.Cleanup(cancel)
	looking.Go(func() { d.watchPeers(ctx, nil) })
	eventually(t, "the node is a peer that is down", func() bool { return len(d.lastPeers()) == 1 && d.says("a node does not answer") })
	n, err := node.Node(registry.Torus{})
	if err != nil {
		t.Fatal(err)
	}
	d.loop.Do(func(clock.Time) { d.engine.RemoveNode(0, n.Addr) })
	eventually(t, "the node is no peer", func() bool { return len(d.lastPeers()) == 0 })
}
