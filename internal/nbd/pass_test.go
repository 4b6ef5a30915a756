package nbd

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// The stand-in gives the turn of a worker to another. The worker may be the last one, and may
// take the turn back and end. The race detector checks that no other worker is hired after that.
func TestNoWorkerIsHiredBehindTheLastOne(t *testing.T) {
	for range 200 {
		here, there := net.Pipe()
		there.Close()
		n := newConn(&Server{}, here)
		ctx, cancel := context.WithCancel(t.Context())
		n.cancel = cancel
		<-n.turn
		n.waiting, n.workers = 1, 1 // the worker, which has the turn …
		n.wg.Go(func() { n.fail(errors.New("its reply was not sent")) })
		var all, standIn sync.WaitGroup
		all.Go(n.wg.Wait)
		standIn.Go(func() { n.pass(ctx) }) // … and has kept it for long
		all.Wait()
		standIn.Wait()
		n.wg.Wait()
		cancel()
		here.Close()
	}
}
