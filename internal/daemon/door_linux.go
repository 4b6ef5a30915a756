package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/metrics"
	"github.com/weftnet/weft/internal/sdnotify"
)

// A door is the one socket of a daemon, with its accounts of the callers. The links behind it are
// separate engines, each with its NIC id, its loop and its processes (NETSTAR-8):
//
//	           ┌─ "fast0" ─► Daemon: engine, loop, control process ── frames ── link
//	socket ────┤
//	           └─ "slow0" ─► Daemon: engine, loop, control process ── frames ── link
//
// A request names its link. A request without a name is for the first link. A connection that has
// attached stays with the link of its process.
type door struct {
	links  []*Daemon // at least one
	places *places   // for ranks of jobs, on any link

	listener *ctl.Listener
	metrics  *metrics.Server // nil: none

	level      slog.LevelVar
	supervisor *sdnotify.Supervisor // nil: none
	telling    sync.Mutex           // held while the supervisor hears of a reload or of the end
	reloading  sync.Mutex           // held during one reload
	hangUps    chan struct{}        // holds a token if a reload is due

	ctx  context.Context // of run: done when the daemon goes down
	stop context.CancelFunc

	mu        sync.Mutex
	clients   map[*client]bool
	callers   map[int]*caller // by pid
	strangers int             // connections that have not attached
	closing   bool
	mode      os.FileMode // of the socket, as the daemon last set it
	// awaiting holds clients that wait for the end of their connection, which is the daemon's
	// end; see answerShutdown.
	awaiting []*ctl.Client
	served   sync.WaitGroup
	turning  chan struct{} // holds a token for each client that is being turned away
}

func newDoor(c Config) *door {
	h := &door{places: newPlaces(c.Subreaper), clients: map[*client]bool{}, callers: map[int]*caller{},
		ctx: context.Background(), stop: func() {}, turning: make(chan struct{}, 16),
		supervisor: c.Supervisor, hangUps: make(chan struct{}, 1)}
	h.level.Set(levelOf(c.Log))
	return h
}

// take acquires what the daemon needs, the socket first: only one process can hold it, and that
// one is the daemon.
func (h *door) take() (err error) {
	first := h.links[0]
	s := &first.settings
	h.mode = s.config.socketMode()
	if h.listener, err = ctl.Listen(s.socket, h.mode); err != nil {
		return err
	}
	first.removeJobSockets()
	if err = h.places.family.adopt(); err != nil {
		return err
	}
	first.jobs.startEarly(s.config.Expect)
	machines, err := openMachines(s.stateDir)
	if err != nil {
		return err
	}
	for _, d := range h.links {
		d.machines = machines
		if err := d.take(); err != nil {
			return h.of(d, err)
		}
	}
	if err := h.openMetrics(); err != nil { // after the links, which make the state directory
		return err
	}
	return h.provideFiles()
}

// of returns err, with the name of the link that it concerns if there are several links.
func (h *door) of(d *Daemon, err error) error {
	if err == nil || len(h.links) == 1 {
		return err
	}
	return fmt.Errorf("link %s: %w", d.settings.linkName(), err)
}

// called returns the link with that name, or the first link if the name is empty.
func (h *door) called(name string) (*Daemon, error) {
	if name == "" {
		return h.links[0], nil
	}
	for _, d := range h.links {
		if d.settings.linkName() == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: no link is called %.64q; this daemon has %s", ctl.ErrNoLink, name, h.linkNames())
}

// linkNames lists the names of the links.
func (h *door) linkNames() string {
	var names []string
	for _, d := range h.links {
		names = append(names, d.settings.linkName())
	}
	return strings.Join(names, ", ")
}

// run serves all links until ctx is done.
func (h *door) run(ctx context.Context) error {
	giveProcessors(len(h.links))
	ctx, h.stop = context.WithCancel(ctx)
	defer h.stop()
	h.ctx = ctx
	for _, d := range h.links {
		d.tell()
	}
	loopCtx, stopLoops := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	for _, d := range h.links {
		loops.Go(func() { d.loop.Run(loopCtx) })
	}
	err := h.serveAll(ctx)
	stopLoops()
	loops.Wait()
	return errors.Join(err, h.close())
}

// serveAll serves until ctx is done, and then ends all processes. The loops must be running.
func (h *door) serveAll(ctx context.Context) error {
	// A signal that comes meanwhile is an orderly end, too.
	coming, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	var err error
	for _, d := range h.links {
		if d.control, err = newControl(coming, d); err != nil {
			return h.of(d, err)
		}
	}
	var rest sync.WaitGroup
	for _, d := range h.links {
		d.follow(ctx, &rest)
	}
	rest.Go(func() { h.places.family.reapOrphans(ctx.Done()) })
	rest.Go(func() { h.places.sweep(ctx, h.links[0].log) })
	rest.Go(h.links[0].accept)
	rest.Go(func() { h.heedHangUps(ctx) })
	rest.Go(func() { h.watch(ctx) })
	h.told(h.supervisor.Ready())
	err = h.serveMetrics(ctx)
	h.tellEnd()
	h.places.close() // before the NICs: the keepers tell their launchers why
	for _, d := range h.links {
		d.log.Info("NIC is going down")
		d.loop.Do(d.engine.Close) // peers get a goodbye; processes see its word and wake
		d.control.close()
	}
	err = errors.Join(err, h.hangUp())
	for _, d := range h.links {
		err = errors.Join(err, d.leaveGossip())
	}
	rest.Wait()
	h.served.Wait()
	for _, d := range h.links {
		err = errors.Join(err, d.dropKept())
	}
	return err
}

// hangUp closes the socket and every connection.
func (h *door) hangUp() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing = true
	for c := range h.clients {
		_ = c.conn.Close()
	}
	return h.listener.Close()
}

// close frees what New acquired. Nothing may be running any more.
func (h *door) close() error {
	errs := []error{h.closeMetrics()}
	if h.listener != nil {
		errs = append(errs, h.listener.Close())
	}
	for _, d := range h.links {
		errs = append(errs, d.close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.awaiting {
		errs = append(errs, c.Close())
	}
	h.awaiting = nil
	return errors.Join(errs...)
}

// list describes the links to a tool.
func (h *door) list() (l []ctl.Link) {
	for _, d := range h.links {
		l = append(l, ctl.Link{Name: d.settings.linkName(), Kind: d.link.now(), NIC: d.id,
			Address: d.Addr().String(), Processes: len(d.processes())})
	}
	return l
}

// giveProcessors gives every loop its own processor of the Go scheduler, and the other goroutines
// two. A loop never yields its processor. A goroutine in a system call keeps one until the
// runtime notices, which can take 10 ms. With only one processor for all goroutines but the
// loops, nothing would be answered in that time.
func giveProcessors(loops int) { runtime.GOMAXPROCS(max(loops+2, runtime.GOMAXPROCS(0))) }
