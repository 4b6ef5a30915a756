package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

// Fetch gets the content of a file into the store of a keeper's host, and answers the requests of
// the keeper's children meanwhile and until [Node.Close]. It returns when the store has the whole
// content. If the store has it from the beginning, Fetch asks no other host.
//
// Fetch fails if the launcher ends, does not have the file, or sends wrong content ([ErrContent]),
// if the store fails, and if ctx ends.
func Fetch(ctx context.Context, cfg Config, store Store) (*Node, error) {
	n, err := newNode(cfg)
	if err != nil {
		return nil, err
	}
	content, err := store.Have(cfg.Manifest)
	switch {
	case err == nil:
		n.content, n.held = content, content
		n.begin()
		return n, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, errors.Join(fmt.Errorf("stage %s: %w", cfg.Manifest.Name, err), n.Close())
	}
	if err := n.fetch(ctx, store); err != nil {
		n.tellChildren()
		return nil, errors.Join(fmt.Errorf("stage %s: %w", cfg.Manifest.Name, err), n.Close())
	}
	return n, nil
}

// fetch gets all chunks from the parent or the launcher.
func (n *Node) fetch(ctx context.Context, store Store) (err error) {
	draft, err := store.Draft(n.Manifest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, draft.Close()) }()
	n.content, n.there = draft, make([]bool, n.Manifest.Chunks())
	n.begin()
	f := &fetch{n: n, draft: draft}
	f.from.Store(int32(n.Tree.Parent(n.Host)))
	err = f.all(ctx)
	var content Content
	if err == nil {
		content, err = draft.Commit()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.content, n.there, n.why = nil, nil, err
	if err == nil {
		n.content, n.held = content, content
	}
	return err
}

// tellChildren answers the children that wait for a file that will not come, so that they ask the
// launcher at once. A child has one second to take its answer.
func (n *Node) tellChildren() {
	run := n.Process.Runtime()
	ctx, cancel := run.WithTimeout(n.ctx, time.Second)
	defer cancel()
	run.Wake()
	_ = run.WaitUntil(ctx, func() bool { return n.calls.Load() == 0 })
}

// fetch is a file that is arriving.
type fetch struct {
	n     *Node
	draft Draft
	from  atomic.Int32 // the host that is asked, or Launcher
	next  atomic.Int32 // the first chunk that no goroutine has asked for
	left  atomic.Int32 // goroutines
	err   error        // the first, under n.mu
	stop  context.CancelFunc
}

// all gets the chunks by several goroutines, so that the next is in flight while one is checked.
func (f *fetch) all(ctx context.Context) error {
	ctx, f.stop = context.WithCancel(ctx)
	defer f.stop()
	f.left.Store(limits.StagedWindow)
	for range limits.StagedWindow {
		f.n.run(func() {
			defer f.left.Add(-1)
			f.some(ctx)
		})
	}
	if err := f.n.Process.Runtime().WaitUntil(context.Background(),
		func() bool { return f.left.Load() == 0 }); err != nil {
		f.failed(err) // the process is closed
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	return f.err
}

func (f *fetch) failed(err error) {
	f.n.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.n.mu.Unlock()
	f.stop()
}

// some gets chunks until none is left.
func (f *fetch) some(ctx context.Context) {
	buf := make([]byte, f.n.Manifest.replyBytes())
	for {
		chunk := int(f.next.Add(1) - 1)
		if chunk >= f.n.Manifest.Chunks() {
			return
		}
		if err := f.one(ctx, chunk, buf); err != nil {
			f.failed(err)
			return
		}
	}
}

// one gets one chunk. If the parent does not deliver it, one asks the launcher.
func (f *fetch) one(ctx context.Context, chunk int, buf []byte) error {
	for {
		from := int(f.from.Load())
		b, err := f.ask(ctx, from, chunk, buf)
		switch {
		case err == nil:
			return f.keep(chunk, b)
		case ctx.Err() != nil:
			return ctx.Err()
		case from == Launcher:
			return err
		case f.from.CompareAndSwap(int32(from), Launcher):
			f.n.counts.lost.Add(1)
		}
	}
}

// ask asks a process for a chunk until it is no longer busy, and checks what it sends. A parent
// has limited time; the launcher has no limit while it lives.
func (f *fetch) ask(ctx context.Context, from, chunk int, buf []byte) ([]byte, error) {
	n, run := f.n, f.n.Process.Runtime()
	if from != Launcher {
		var cancel context.CancelFunc
		ctx, cancel = run.WithTimeout(ctx, limits.StagedPatience)
		defer cancel()
	}
	var request [requestBytes]byte
	n.Manifest.putRequest(&request, chunk)
	name := n.Tree.Name(from)
	for {
		m, err := n.port.Peer(name).Call(ctx, 0, request[:], buf)
		if err != nil {
			return nil, fmt.Errorf("chunk %d: %w", chunk, err)
		}
		if m.Len > 0 && code(buf[0]) == busy {
			if err := run.Sleep(ctx, time.Duration(20+run.Random()%40)*time.Millisecond); err != nil {
				return nil, err
			}
			continue
		}
		return f.check(name, chunk, buf[:m.Len])
	}
}

// check returns the chunk in a reply.
func (f *fetch) check(from weft.Name, chunk int, reply []byte) ([]byte, error) {
	switch {
	case len(reply) == 0:
		return nil, fmt.Errorf("chunk %d: %v sends an empty reply", chunk, from)
	case code(reply[0]) != here:
		return nil, fmt.Errorf("chunk %d: %v %v", chunk, from, code(reply[0]))
	case !f.n.Manifest.right(chunk, reply[1:]):
		f.n.counts.wrong.Add(1)
		return nil, fmt.Errorf("%w: chunk %d from %v; start the job again if the file has changed",
			ErrContent, chunk, from)
	}
	return reply[1:], nil
}

// keep stores a chunk, and makes it available to the children.
func (f *fetch) keep(chunk int, b []byte) error {
	offset, _ := f.n.Manifest.span(chunk)
	if _, err := f.draft.WriteAt(b, offset); err != nil {
		return err
	}
	f.n.counts.fetched.Add(uint64(len(b)))
	f.n.mu.Lock()
	f.n.there[chunk] = true
	f.n.mu.Unlock()
	f.n.Process.Runtime().Wake()
	return nil
}
