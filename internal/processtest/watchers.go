package processtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft"
)

var watchers = []Case{
	{"each watcher gets the events of its peers", endAfterUse, watch},
}

// endAfterUse is the function of a process that is closed after the other has used it.
func endAfterUse(ctx context.Context, p *weft.Process, other weft.Name) error {
	if _, err := p.Recv(ctx, other, 1, nil); err != nil {
		return err
	}
	return p.Close()
}

func watch(ctx context.Context, p *weft.Process, other weft.Name) error {
	addr, err := p.WaitName(ctx, other)
	if err != nil {
		return err
	}
	all, another, peer, stranger, closed := p.Watch(), p.Watch(), p.Watch(addr), p.Watch(p.Address()), p.Watch(addr)
	ends := make(chan error, 1)
	p.Runtime().Go(func() {
		_, err := closed.Next(ctx)
		ends <- err
		p.Runtime().Wake()
	})
	if err := p.Runtime().Sleep(ctx, time.Millisecond); err != nil { // the watcher waits
		return err
	}
	closed.Close()
	if err := p.Runtime().WaitUntil(ctx, func() bool { return len(ends) == 1 }); err != nil {
		return err
	}
	if err := refused("a watcher that was closed", <-ends, weft.ErrClosed); err != nil {
		return err
	}
	// The other process has ended when the send is answered, so the answer may be lost.
	if err := p.Send(ctx, other, 1); err != nil && !errors.Is(err, weft.ErrProcessGone) &&
		!errors.Is(err, weft.ErrUnreachable) {
		return err
	}
	for what, next := range map[string]func(context.Context) (weft.Event, error){
		"a watcher of all": all.Next, "another one": another.Next, "a watcher of the peer": peer.Next,
	} {
		e, err := next(ctx)
		orderly := e.Kind == weft.EventProcessGone && e.Addr == addr || e.Kind == weft.EventClosed &&
			e.Addr == (weft.Address{NIC: addr.NIC})
		if err != nil || !orderly || e.Missed != 0 {
			return fmt.Errorf("%s is told %v, %w; expected the end of %v, in order", what, e, err, other)
		}
	}
	within, cancel := p.Runtime().WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	e, err := stranger.Next(within)
	if err := refused(fmt.Sprintf("a watcher of another peer is told %v", e), err,
		context.DeadlineExceeded); err != nil {
		return err
	}
	return nil
}
