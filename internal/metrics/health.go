package metrics

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// verdict is the result of the check of one NIC. An error is nil if the check passed.
type verdict struct {
	alive error // the loop makes no progress
	ready error // the NIC takes no process, or carries no frames
}

// health checks the NICs of a daemon. It reuses results for limits.HealthEvery, and only one
// goroutine checks: a flood of requests costs the loops no more than one request.
type health struct {
	daemon   *Daemon
	patience time.Duration // timeout of an empty job
	pending  []atomic.Bool // an empty job of a NIC is in flight

	mu   sync.Mutex
	at   time.Time
	last []verdict
}

func newHealth(d *Daemon) *health {
	return &health{daemon: d, patience: limits.DaemonPatience, pending: make([]atomic.Bool, len(d.NICs))}
}

// look returns the verdicts on all NICs, in their order.
func (h *health) look() []verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last != nil && time.Since(h.at) < limits.HealthEvery {
		return h.last
	}
	all := make([]verdict, len(h.daemon.NICs))
	var looks sync.WaitGroup
	for i := range all {
		looks.Go(func() { all[i] = h.check(i) })
	}
	looks.Wait()
	h.last, h.at = all, time.Now()
	return all
}

func (h *health) check(i int) (v verdict) {
	n := &h.daemon.NICs[i]
	v.alive = h.progress(i)
	errs := []error{h.daemon.Accepts(), n.LinkUp()}
	if has := n.Page.Load(vni.NICProcessesNow); has >= uint64(n.MostProcesses) {
		errs = append(errs, fmt.Errorf("all %d slots for processes are taken", n.MostProcesses))
	}
	v.ready = errors.Join(errs...)
	return v
}

// progress returns an error if the loop of a NIC does not run an empty job in time. A loop that
// hangs occupies only one job and one goroutine, regardless of the number of requests.
func (h *health) progress(i int) error {
	stuck := fmt.Errorf("the loop has made no progress for %v", h.patience)
	if h.pending[i].Swap(true) {
		return stuck
	}
	done := make(chan struct{})
	go func() {
		h.daemon.NICs[i].Job()
		h.pending[i].Store(false)
		close(done)
	}()
	late := time.NewTimer(h.patience)
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-late.C:
		return stuck
	}
}

// alive returns the reason why the daemon does not make progress, or nil.
func (h *health) alive() error { return h.failing(func(v *verdict) error { return v.alive }) }

// ready returns the reason why the daemon cannot serve processes, or nil.
func (h *health) ready() error {
	return h.failing(func(v *verdict) error { return errors.Join(v.alive, v.ready) })
}

// failing joins the errors of all NICs, each with the name of its link.
func (h *health) failing(of func(v *verdict) error) error {
	var errs []error
	for i, v := range h.look() {
		if err := of(&v); err != nil {
			errs = append(errs, fmt.Errorf("link %s: %w", h.daemon.NICs[i].Link, err))
		}
	}
	return errors.Join(errs...)
}
