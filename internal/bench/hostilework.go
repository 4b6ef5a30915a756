package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// workApp is the application that works during the turns of hostile processes. Its first process
// sends messages to each of the others and checks the echoes.
const workApp = "honest"

var workers = []weft.Name{{App: workApp}, {App: workApp, Index: 1}, {App: workApp, Index: 2}}

// patienceAmongHostile is how long an echo may take before it counts as lost.
const patienceAmongHostile = time.Minute

// longestEcho is the length of the longest message, in bytes: far beyond the credit.
const longestEcho = 200 << 10

// worker is the first process of the application.
type worker struct {
	p       *weft.Process
	peers   []weft.Name
	seed    uint64
	count   uint64
	to, fro []byte
}

// startWork starts the workers that echo, and attaches as the first one.
func (u *undo) startWork(ctx context.Context, self, socket string, seed uint64) (*worker, error) {
	for _, n := range workers[1:] {
		echo := crewPlan{Socket: socket, App: n.App, First: int(n.Index), Count: 1,
			Echo: &crewEcho{From: &crewTo{workApp, 0, 1}, Tag: weft.AnyTag, Most: longestEcho}}
		if _, _, err := u.startCrew(ctx, self, KindHostile, echo); err != nil {
			return nil, err
		}
	}
	p, err := u.attach(ctx, socket, workers[0])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, n := range workers[1:] {
		if _, err := p.WaitName(ctx, n); err != nil {
			return nil, fmt.Errorf("bench: waiting for %v: %w", n, err)
		}
	}
	return &worker{p: p, peers: workers[1:], seed: seed, to: make([]byte, longestEcho), fro: make([]byte, longestEcho)},
		nil
}

// work exchanges messages for the time d and checks each. It records the round trips of short
// ones.
func (w *worker) work(ctx context.Context, d time.Duration, h *times) error {
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
			h.note(time.Since(start))
		}
	}
	return nil
}

// exchange sends one message and checks its echo. No other message may come from that peer.
func (w *worker) exchange(ctx context.Context, size int) error {
	peer := w.peers[w.count%uint64(len(w.peers))]
	tag, seed := weft.Tag(w.count), load.Seed(w.seed, w.count)
	w.count++
	ctx, cancel := context.WithTimeoutCause(ctx, patienceAmongHostile,
		fmt.Errorf("no echo of message %d within %v", tag, patienceAmongHostile))
	defer cancel()
	load.Fill(w.to[:size], seed)
	if err := w.p.Send(ctx, peer, tag, w.to[:size]); err != nil {
		return errors.Join(fmt.Errorf("sending message %d to %v: %w", tag, peer, err), context.Cause(ctx))
	}
	m, err := w.p.Recv(ctx, peer, weft.AnyTag, w.fro)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("waiting for the echo of message %d from %v: %w", tag, peer, err),
			context.Cause(ctx))
	case m.Tag != tag || m.Full != size:
		return fmt.Errorf("%v sent a message with tag %d of %d bytes; expected %d and %d",
			peer, m.Tag, m.Full, tag, size)
	}
	if err := load.Check(w.fro[:size], seed); err != nil {
		return fmt.Errorf("echo of message %d from %v: %w", tag, peer, err)
	}
	return nil
}
