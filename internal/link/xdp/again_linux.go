package xdp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// An interface can disappear and return: a container's network is made anew, a driver module is
// loaded again, a VLAN is deleted and added. The kernel then detaches the program and the AF_XDP
// sockets permanently.
//
//	attached ── news: the interface is gone ──► lost: frames go by the ordinary socket
//	   ▲                                          │ Follow: try, pause, try …, or at news
//	   └── enter, with the engine ────────────────┘ prepare, without the engine
//
// The driver itself neither waits nor starts a goroutine. Its owner runs Follow in one.

const (
	firstPause = 50 * time.Millisecond // after a loss, and between news and the next try
	mostPause  = 10 * time.Second      // between tries; each pause is twice the one before
)

// ErrLost is wrapped by the errors of a driver whose interface is gone.
var ErrLost = errors.New("the interface of AF_XDP is gone")

// errNoInterface means that no interface has the address now.
var errNoInterface = errors.New("no interface of this host has the address")

// chained holds the arguments of the last Chain.
type chained struct {
	steps     *ebpf.Map
	first, on uint32
}

// attachment holds the parts of a driver that belong to an interface.
type attachment struct {
	at     place
	queues []*queue
	steer  steering
	why    string
}

// Attached reports whether the driver is attached to an interface. Any goroutine may call it.
func (d *Driver) Attached() bool { return !d.lost.Load() }

// check tests, after news, whether the interface still exists, and passes the news to Follow.
func (d *Driver) check() {
	if d.closed {
		return
	}
	if !d.lost.Load() && d.gone() {
		d.detach()
	}
	if d.lost.Load() {
		select {
		case d.news <- struct{}{}:
		default:
		}
	}
}

// gone reports whether the kernel has detached the program from its interface, or the interface
// with the address no longer exists.
func (d *Driver) gone() bool {
	info, err := d.steer.attached.Info()
	if err == nil && info.XDP() != nil && info.XDP().Ifindex == 0 {
		return true
	}
	return !d.routes.exists()
}

// detach releases an interface that is gone. From then on frames use the ordinary socket.
func (d *Driver) detach() {
	d.counters.DroppedIn += d.overrun()
	d.lost.Store(true)
	for _, q := range d.queues {
		_ = d.tell(unix.EPOLL_CTL_DEL, q.fd) // fails for sockets that are not watched
	}
	if d.open == direct {
		d.open = adrift
	}
	_ = free(d.dead, &d.steer) // the kernel has detached it already
	d.dead, d.queues, d.first, d.peeked, d.last = d.queues, nil, 0, nil, nil
	d.routes.forget(-1, mac{}, 0)
}

// free closes queues and the steering programs. It keeps the form of the frames.
func free(queues []*queue, s *steering) (err error) {
	if s.attached != nil {
		err = s.attached.Close()
	}
	for _, q := range queues {
		err = errors.Join(err, q.close())
	}
	for _, p := range []*ebpf.Program{s.program, s.on} {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
	}
	if s.sockets != nil {
		err = errors.Join(err, s.sockets.Close())
	}
	*s = steering{spec: s.spec, vlan: s.vlan}
	return err
}

// prepare makes queues and a program on the interface that has the address now. It does not need
// the engine.
func (d *Driver) prepare() (*attachment, error) {
	a, err := d.attachTo(d.cfg.Copy)
	if err != nil || a.queues[0].copying != nil {
		return a, err
	}
	scratch := &Driver{queues: a.queues}
	if why := scratch.testFrom(a.at.hw); why != nil {
		if err := free(a.queues, &a.steer); err != nil {
			return nil, fmt.Errorf("giving up zero-copy, because %w: %w", why, err)
		}
		return d.attachTo(true)
	}
	return a, nil
}

func (d *Driver) attachTo(copying bool) (*attachment, error) {
	at, err := find(d.addr.Addr())
	if err != nil {
		return nil, err
	}
	cfg := d.cfg
	cfg.Copy = copying
	scratch := &Driver{epoll: -1, addr: d.addr, slow: d.slow}
	fail := func(err error) (*attachment, error) {
		return nil, errors.Join(fmt.Errorf("interface %s: %w", at.name, err), free(scratch.queues, &scratch.steer))
	}
	if err := scratch.size(d.mtu, at, d.addr.Addr()); err != nil {
		return fail(err)
	}
	if err := scratch.openQueues(cfg, at); err != nil {
		return fail(err)
	}
	if err := scratch.attach(cfg.Generic, at); err != nil {
		return fail(err)
	}
	return &attachment{at, scratch.queues, scratch.steer, scratch.why}, nil
}

// shape records the form of the interface's frames, for Frames.
func (d *Driver) shape() {
	d.tagged.Store(d.steer.vlan != 0)
	d.pieces.Store(d.steer.spec.Flags != 0)
}

// enter continues with an attachment, and with the previous chain. The caller holds the engine.
// If enter fails, it frees the attachment.
func (d *Driver) enter(a *attachment) (err error) {
	if d.closed || !d.lost.Load() {
		return free(a.queues, &a.steer)
	}
	before := d.steer
	d.queues, d.steer = a.queues, a.steer
	d.routes.forget(a.at.index, a.at.hw, a.at.vlan)
	if c := d.chainOf; c.steps != nil {
		if before.vlan != 0 != (a.steer.vlan != 0) || before.spec.Flags != a.steer.spec.Flags {
			err = errors.New("frames come in another form than those that the programs in the driver were compiled for")
		} else {
			err = d.chain(c.steps, c.first, c.on)
		}
	}
	if err != nil {
		err = errors.Join(err, free(d.queues, &d.steer))
		d.queues, d.steer = nil, steering{spec: before.spec, vlan: before.vlan}
		d.routes.forget(-1, mac{}, 0)
		return fmt.Errorf("interface %s: %w", a.at.name, err)
	}
	d.why = a.why
	d.shape()
	d.lost.Store(false)
	if d.watched {
		d.watchQueues()
	}
	return nil
}

// Follow keeps the driver attached until ctx is done. If the interface disappears, Follow
// attaches the driver to the next interface with the address, with the programs of Chain. do
// must call its argument while it holds the engine. say gets a text for the loss, for the
// return, and for each new reason of a failed try.
func (d *Driver) Follow(ctx context.Context, do func(func()), say func(text string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.news:
		}
		if d.lost.Load() {
			say("AF_XDP has lost its interface: frames go by the ordinary socket " +
				"until an interface has the address again")
			d.regain(ctx, do, say)
		}
	}
}

// regain tries to attach the driver until it succeeds or ctx is done.
func (d *Driver) regain(ctx context.Context, do func(func()), say func(text string)) {
	said := ""
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		if !rest(ctx, firstPause, nil) || !rest(ctx, pause-firstPause, d.news) {
			return
		}
		a, err := d.prepare()
		if err == nil {
			do(func() { err = d.enter(a) })
		}
		switch {
		case err == nil && d.Attached():
			say("AF_XDP is back: " + a.why)
			return
		case err == nil:
			return // the driver is closed
		case !errors.Is(err, errNoInterface) && err.Error() != said:
			said = err.Error()
			say("AF_XDP is not back yet: " + said)
		}
	}
}

// rest waits for some time, or until there is news. It returns false if ctx is done.
func rest(ctx context.Context, pause time.Duration, news <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-news:
	case <-timer.C:
	}
	return true
}
