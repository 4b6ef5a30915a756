package weft

import (
	"context"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/capture"
)

// followed is a link on a network interface that may disappear and reappear.
type followed interface {
	Follow(ctx context.Context, do func(func()), say func(text string))
}

// follow keeps the link attached until the returned function is called.
func (n *NIC) follow(d link.Driver) (stop func()) {
	if c, ok := d.(*capture.Driver); ok {
		d = c.Driver
	}
	f, ok := d.(followed)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		do := func(f func()) { n.poller.Do(func(clock.Time) { f() }) }
		f.Follow(ctx, do, func(text string) {
			if n.log != nil {
				n.log.Warn("link", "how", text)
			}
		})
	}()
	return func() { cancel(); <-done }
}
