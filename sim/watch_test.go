package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// Several watchers of one process distinguish silence from an orderly end. Each watches its own
// peers.
func TestWatchersTellSilenceFromAnOrderlyEnd(t *testing.T) {
	f := New(Config{Seed: Seed(1), NICs: 3})
	silent, closes := weft.Name{App: "silent"}, weft.Name{App: "closes"}
	f.Serve(1, silent.String(), func(p *Process) error {
		_, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, nil)
		f.Partition(1)
		sleep(p, time.Minute)
		return err
	})
	f.Process(2, closes.String(), func(p *Process) error {
		_, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, nil)
		return err
	})
	f.Process(0, "watches/0", func(p *Process) error {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Minute)
		defer cancel()
		of := map[weft.Name]*weft.Watcher{}
		for _, n := range []weft.Name{silent, closes} {
			a, err := p.WaitName(ctx, n)
			if err != nil {
				return err
			}
			of[n] = p.Watch(a)
			if err := p.Send(ctx, n, 1); err != nil && !errors.Is(err, weft.ErrUnreachable) {
				return err
			}
		}
		if _, err := p.Recv(ctx, silent, 1, nil); err == nil {
			return fmt.Errorf("a message came from %v", silent)
		}
		for n, want := range map[weft.Name]weft.EventKind{silent: weft.EventUnreachable, closes: weft.EventProcessGone} {
			if e, err := of[n].Next(ctx); err != nil || e.Kind != want {
				return fmt.Errorf("of %v: %v, %v; expected kind %d", n, e, err, want)
			}
		}
		return nil
	})
	if err := f.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
}

// If a process has received from another process but has sent it nothing, it learns of the end of
// that process: once, and by the process's address. A later Send must not make the NIC report the
// same end again.
func TestAReceiverIsToldWhenTheSenderEnds(t *testing.T) {
	for _, host := range []int{0, 1} { // both on one NIC, and on two
		f := New(Config{Seed: Seed(1)})
		sender, receiver := weft.Name{App: "sender"}, weft.Name{App: "receiver"}
		f.Process(host, sender.String(), func(p *Process) error {
			ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if _, err := p.WaitName(ctx, receiver); err != nil {
				return err
			}
			return p.Peer(receiver).SendDelivered(ctx, 1)
		})
		f.Process(0, receiver.String(), func(p *Process) error {
			ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Minute)
			defer cancel()
			events := p.Watch()
			m, err := p.Recv(ctx, weft.AnyProcess, 1, nil)
			if err != nil {
				return err
			}
			if e, err := events.Next(ctx); err != nil || e.Kind != weft.EventProcessGone || e.Addr != m.Addr || e.Name != sender {
				return fmt.Errorf("with the sender on host %d the event is %v, %v; expected the end of %v", host, e, err, sender)
			}
			if err := p.PeerAt(m.Addr).SendDelivered(ctx, 1); !errors.Is(err, weft.ErrProcessGone) {
				return fmt.Errorf("a send to a sender on host %d that has gone: %v; expected %w", host, err, weft.ErrProcessGone)
			}
			within, cancelWithin := p.Runtime().WithTimeout(ctx, time.Second)
			defer cancelWithin()
			if e, err := events.Next(within); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("with the sender on host %d there is a second event, %v, %v; expected none", host, e, err)
			}
			return nil
		})
		if err := f.Run(time.Hour); err != nil {
			t.Error(err)
		}
	}
}

// A watcher that falls behind learns how many events it has missed. Another watcher misses none.
func TestAWatcherThatFallsBehindIsToldHowManyItMissed(t *testing.T) {
	const peers, kept = 100, 64
	f := New(Config{Seed: Seed(1)})
	for i := range peers {
		f.Process(1, fmt.Sprintf("peer/%d", i), func(p *Process) error {
			_, err := p.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, nil)
			return err
		})
	}
	f.Process(0, "watches/0", func(p *Process) error {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), time.Minute)
		defer cancel()
		first, err := p.WaitName(ctx, weft.Name{App: "peer"})
		if err != nil {
			return err
		}
		quick, slow, picky := p.Watch(), p.Watch(), p.Watch(first)
		for i := range peers {
			name := weft.Name{App: "peer", Index: uint32(i)}
			if _, err := p.WaitName(ctx, name); err != nil {
				return err
			}
			if err := p.Send(ctx, name, 1); err != nil {
				return err
			}
			if e, err := quick.Next(ctx); err != nil || e.Kind != weft.EventProcessGone || e.Missed != 0 || e.Name != name {
				return fmt.Errorf("event %d: %v, %d missed, %v", i, e, e.Missed, err)
			}
		}
		if e, err := picky.Next(ctx); err != nil || e.Kind != weft.EventMissed || e.Missed != peers-kept {
			return fmt.Errorf("of the first peer: %v, %d missed, %v; expected %d missed", e, e.Missed, err, peers-kept)
		}
		for i := range kept {
			e, err := slow.Next(ctx)
			missed := uint64(0)
			if i == 0 {
				missed = peers - kept
			}
			if err != nil || e.Missed != missed || e.Name.Index != uint32(peers-kept+i) {
				return fmt.Errorf("event %d of those kept: %v, %d missed, %v", i, e, e.Missed, err)
			}
		}
		return nil
	})
	if err := f.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
}
