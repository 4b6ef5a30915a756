package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/payload"
)

// workers are the names of the processes that work beside hostile ones. The first sends each of the others a message and
// checks its echo.
var workers = []string{"honest/0", "honest/1", "honest/2"}

// echo is the kind of process that answers the first worker.
const echo = "echo"

// patienceAmongHostile is how long an echo may take before it counts as lost.
const patienceAmongHostile = 20 * time.Second

// longestEcho is the length of the longest message that is exchanged: far beyond what goes without permission.
const longestEcho = 200 << 10

// worker is the first of them.
type worker struct {
	p       *weft.Process
	peers   []weft.Name
	seed    uint64
	count   uint64
	to, fro []byte
}

// startWork starts the workers that echo, and attaches as the first one.
func (u *undo) startWork(ctx context.Context, self, socket string, seed uint64) (*worker, error) {
	w := &worker{seed: seed, to: make([]byte, longestEcho), fro: make([]byte, longestEcho)}
	for _, name := range workers[1:] {
		if _, err := u.talk(newChild(self, "bench", KindHostile, "--child", echo, "--socket", socket, "--others", name+","+workers[0])); err != nil {
			return nil, err
		}
	}
	name, err := weft.ParseName(workers[0])
	if err != nil {
		return nil, err
	}
	if w.p, err = u.attach(ctx, socket, name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, s := range workers[1:] {
		n, err := weft.ParseName(s)
		if err != nil {
			return nil, err
		}
		if _, err := w.p.WaitName(ctx, n); err != nil {
			return nil, fmt.Errorf("bench: waiting for %v: %w", n, err)
		}
		w.peers = append(w.peers, n)
	}
	return w, nil
}

// work exchanges messages for the time d and checks each. The round trips of short ones are recorded.
func (w *worker) work(ctx context.Context, d time.Duration, h *hdrhistogram.Histogram) error {
	for begin := time.Now(); time.Since(begin) < d; {
		size := 64
		switch {
		case w.count%61 == 60:
			size = longestEcho - int(w.count%4096)
		case w.count%16 == 15:
			size = 20 << 10
		}
		start := time.Now()
		if err := w.exchange(ctx, size); err != nil {
			return err
		}
		if size == 64 {
			note(h, time.Since(start))
		}
	}
	return nil
}

// exchange sends one message and checks its echo. Nothing but it may come from that peer.
func (w *worker) exchange(ctx context.Context, size int) error {
	peer := w.peers[w.count%uint64(len(w.peers))]
	tag, seed := weft.Tag(w.count), payload.Seed(w.seed, w.count)
	w.count++
	ctx, cancel := context.WithTimeoutCause(ctx, patienceAmongHostile, fmt.Errorf("no echo of message %d within %v", tag, patienceAmongHostile))
	defer cancel()
	payload.Fill(w.to[:size], seed)
	if err := w.p.Send(ctx, peer, tag, w.to[:size]); err != nil {
		return errors.Join(fmt.Errorf("sending message %d to %v: %w", tag, peer, err), context.Cause(ctx))
	}
	m, err := w.p.Recv(ctx, peer, weft.AnyTag, w.fro)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("waiting for the echo of message %d from %v: %w", tag, peer, err), context.Cause(ctx))
	case m.Tag != tag || m.Full != size:
		return fmt.Errorf("%v sent a message with tag %d of %d bytes; expected %d and %d", peer, m.Tag, m.Full, tag, size)
	}
	if err := payload.Check(w.fro[:size], seed); err != nil {
		return fmt.Errorf("echo of message %d from %v: %w", tag, peer, err)
	}
	return nil
}

// runEcho is a process, names[0], that sends back all that comes from names[1].
func runEcho(ctx context.Context, socket string, names []string) (err error) {
	if len(names) != 2 {
		return fmt.Errorf("bench: %d names for an echo; expected its own and the other's", len(names))
	}
	own, err := weft.ParseName(names[0])
	if err != nil {
		return err
	}
	other, err := weft.ParseName(names[1])
	if err != nil {
		return err
	}
	p, err := weft.Attach(ctx, weft.AttachConfig{Socket: socket, Name: own})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	buf := make([]byte, longestEcho)
	for {
		m, err := p.Recv(ctx, other, weft.AnyTag, buf)
		if err == nil {
			err = p.Send(ctx, other, m.Tag, buf[:m.Len])
		}
		switch {
		case ctx.Err() != nil, errors.Is(err, weft.ErrProcessGone), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
