package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// Config describes a process and the file that it stages.
type Config struct {
	Process  *weft.Process
	Manifest *Manifest
	Tree     Tree
	Host     int // number of this keeper's host, or Launcher
}

// Node is one process of a tree. It answers the requests of its children until Close.
type Node struct {
	Config
	port *weft.Port
	ctx  context.Context // of its answers
	stop context.CancelFunc

	running atomic.Int32 // its goroutines
	calls   atomic.Int32 // requests that it is answering

	mu      sync.RWMutex
	content io.ReaderAt // the present part of the file; nil: nothing
	held    Content     // content to close; nil: it is the caller's
	there   []bool      // the present chunks; nil: all
	why     error       // why the file will not come

	counts counts
}

// Stats holds the counts of a Node.
type Stats struct {
	FetchedBytes uint64 // received from other hosts, and correct; 0 if the host had the content
	ServedBytes  uint64 // sent to other hosts
	WrongChunks  uint64 // received, and refused because their hash differed
	LostParents  uint64 // 1 if this host turned from its parent to the launcher
	Refused      uint64 // requests that no keeper of the job sends
	Busy         uint64 // requests that were answered with busy
}

type counts struct{ fetched, served, wrong, lost, refused, busy atomic.Uint64 }

// Stats returns the counts so far.
func (n *Node) Stats() Stats {
	c := &n.counts
	return Stats{c.fetched.Load(), c.served.Load(), c.wrong.Load(), c.lost.Load(), c.refused.Load(), c.busy.Load()}
}

// Serve answers the requests of the keepers, in the launcher, which has the file. The content
// must stay readable until [Node.Close] has returned. Serve fails with weft.ErrPortInUse if the
// process stages another file.
func Serve(cfg Config, content io.ReaderAt) (*Node, error) {
	n, err := newNode(cfg)
	if err != nil {
		return nil, err
	}
	n.content = content
	n.begin()
	return n, nil
}

func newNode(cfg Config) (*Node, error) {
	if err := cfg.Manifest.Check(); err != nil {
		return nil, err
	}
	own, err := cfg.Process.Port(port)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	n := &Node{Config: cfg, port: own}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n, nil
}

// begin starts the goroutine that receives the requests.
func (n *Node) begin() { n.run(n.serve) }

// run starts a goroutine. Close waits for it.
func (n *Node) run(fn func()) {
	n.running.Add(1)
	n.Process.Runtime().Go(func() {
		defer n.Process.Runtime().Wake()
		defer n.running.Add(-1)
		fn()
	})
}

// Close ends the answers of the node and closes its content. Children that still lack chunks ask
// the launcher.
func (n *Node) Close() error {
	n.stop()
	err := n.Process.Runtime().WaitUntil(context.Background(), func() bool { return n.running.Load() == 0 })
	if errors.Is(err, weft.ErrClosed) || errors.Is(err, weft.ErrNICGone) {
		err = nil // no process can ask any more
	}
	err = errors.Join(err, n.port.Close())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.content = nil
	if n.held != nil {
		err = errors.Join(err, n.held.Close())
		n.held = nil
	}
	return err
}

// serve receives requests. A request that must wait for its chunk gets its own goroutine.
func (n *Node) serve() {
	buf := make([]byte, requestBytes)
	for {
		m, err := n.port.Recv(n.ctx, weft.AnyProcess, weft.AnyTag, buf)
		if err != nil && !errors.Is(err, weft.ErrTruncated) {
			return
		}
		if !m.IsCall() || !n.Tree.has(m.From) {
			n.counts.refused.Add(1)
			continue
		}
		chunk, ok := n.Manifest.parseRequest(buf[:m.Len])
		if !ok || err != nil {
			n.counts.refused.Add(1)
			n.answer(m, unknown, nil)
			continue
		}
		if n.calls.Load() >= limits.StagedCalls {
			n.counts.busy.Add(1)
			n.answer(m, busy, nil)
			continue
		}
		n.calls.Add(1)
		n.run(func() {
			defer n.calls.Add(-1)
			n.send(m, chunk)
		})
	}
}

// answer sends a reply. If the asker has given up or ended, nothing is left to do.
func (n *Node) answer(m weft.Message, c code, chunk []byte) {
	head := [1]byte{byte(c)}
	if n.port.Reply(n.ctx, m, head[:], chunk) == nil {
		n.counts.served.Add(uint64(len(chunk)))
	}
}

// send waits until a chunk is there, and sends it.
func (n *Node) send(m weft.Message, chunk int) {
	if n.Process.Runtime().WaitUntil(n.ctx, func() bool { return n.settled(chunk) }) != nil {
		return
	}
	b, err := n.read(chunk)
	if err != nil {
		n.answer(m, failed, nil)
		return
	}
	n.answer(m, here, b)
}

// settled reports whether a chunk is there, or will never be.
func (n *Node) settled(chunk int) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.why != nil || n.content != nil && (n.there == nil || n.there[chunk])
}

// read returns a chunk of the content.
func (n *Node) read(chunk int) ([]byte, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.why != nil {
		return nil, n.why
	}
	offset, size := n.Manifest.span(chunk)
	b := make([]byte, size)
	if _, err := n.content.ReadAt(b, offset); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}
