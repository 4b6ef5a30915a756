package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Process is a process on a simulated host. Its functions run as coroutines, one at a time.
//
// It embeds a *weft.Process, which code without knowledge of the simulation can use. That is nil
// until the main function starts. Its operations wait in virtual time.
type Process struct {
	*weft.Process

	f      *Fabric
	host   *node
	name   string
	main   func(*Process) error
	serves bool
	rng    *rand.Rand

	half    *proc.Process // nil until the NIC has taken the process in, as is the *weft.Process
	seg     *vni.Segment
	rw      []byte
	vniName vni.Name
	pid     uint32
	slot    uint16 // 0: none yet
	gen     uint32
	leaving bool // the driver has been asked to delete it

	tasks    []*task
	waiting  []*task // parked in an operation
	detached bool    // the NIC serves it no more
	gone     bool    // the NIC has vanished
	over     bool
}

// Process starts a process on a host, with a name such as "app/3". The process ends when main
// returns, and Run waits for that. If main returns an error, the run ends with it. Process panics
// if there is no such host.
func (f *Fabric) Process(host int, name string, main func(p *Process) error) *Process {
	return f.launch(host, name, main, false)
}

// Serve starts a process as Process does, but Run does not wait for it. main need not return.
func (f *Fabric) Serve(host int, name string, main func(p *Process) error) *Process {
	return f.launch(host, name, main, true)
}

func (f *Fabric) launch(host int, name string, main func(p *Process) error, serves bool) *Process {
	if host < 0 || host >= len(f.nodes) {
		panic(fmt.Sprintf("sim: process %s on host %d; expected 0 to %d", name, host, len(f.nodes)-1))
	}
	p := &Process{f: f, host: f.nodes[host], name: name, main: main, serves: serves}
	p.rng = rand.New(rand.NewPCG(f.seeds.Uint64(), f.seeds.Uint64()))
	f.procs = append(f.procs, p)
	p.pid = uint32(len(f.procs))
	if !serves {
		f.open++
	}
	if p.host.engine == nil {
		p.host.wait = append(p.host.wait, p)
	} else {
		p.begin()
	}
	return p
}

// begin asks the driver of the process's NIC to register it. Its main function starts when the NIC has taken it in.
func (p *Process) begin() {
	if p.over {
		return
	}
	if err := p.prepare(); err != nil {
		p.refused(err)
		return
	}
	p.host.procs = append(p.host.procs, p)
	p.host.ask(p, false)
}

// prepare makes the process's VNI.
func (p *Process) prepare() (err error) {
	if p.vniName, err = vni.ParseName(p.name); err != nil {
		return err
	}
	h := &p.f.cfg.hooks
	g := h.Geometry
	if g == (vni.Geometry{}) {
		g = vni.DefaultGeometry(!h.Pool)
	}
	rw, ro := g.Sizes()
	p.rw = words(rw)
	if p.seg, err = vni.NewSegment(p.rw, words(ro), g); err != nil {
		return err
	}
	if !h.Pool {
		p.seg.EnableDirect()
	}
	return nil
}

// taken is told how the process's registration has ended.
func (p *Process) taken(r driver.Result) {
	n := p.host
	if p.leaving { // its end has been asked for meanwhile, and will be answered next
		return
	}
	if r.Err != nil {
		n.procs = slices.DeleteFunc(n.procs, func(q *Process) bool { return q == p })
		n.engine.Driver().GiveBack(p.slot)
		p.refused(r.Err)
		return
	}
	p.gen = r.Gen
	var err error
	if p.half, err = proc.New(p.seg, waiter{p}, memory{p}, proc.Options{Names: p.liveNames, Straight: newStraight(p), NewGate: virtual{p}.NewGate}); err != nil {
		p.refused(err)
		return
	}
	p.Process = proc.Public(p.half, p.unregister, virtual{p}).(*weft.Process)
	p.start(p.name, p.main, func(*task) { p.leave() })
}

// liveNames are those of the processes that the NIC can reach.
func (p *Process) liveNames(context.Context) (l []vni.Name, err error) {
	if p.host.engine == nil {
		return nil, proc.ErrNICGone
	}
	for _, n := range p.host.engine.Names() {
		if n.Reachable {
			l = append(l, n.Name)
		}
	}
	return l, nil
}

// refused ends a process that has not begun.
func (p *Process) refused(err error) {
	p.leave()
	if told := p.f.cfg.hooks.Refused; told != nil {
		told(p, err)
		return
	}
	p.f.fail(fmt.Errorf("%v on host %d: %w", p.name, p.host.index, err))
}

// start makes a coroutine of a function of the process.
func (p *Process) start(name string, fn func(*Process) error, done func(*task)) {
	p.tasks = append(p.tasks, p.f.s.spawn(p, name, func() error { return fn(p) }, func(t *task) {
		if t.err != nil {
			p.f.fail(fmt.Errorf("%v on host %d: %w", name, p.host.index, t.err))
		}
		if done != nil {
			done(t)
		}
	}))
}

// leave is the end of the process: the NIC lets it go, and its other functions end.
func (p *Process) leave() {
	if p.over {
		return
	}
	p.over = true
	for _, t := range p.tasks {
		p.f.s.kill(t)
	}
	_ = p.unregister()
	n := p.host
	if i := slices.Index(n.wait, p); i >= 0 {
		n.wait = slices.Delete(n.wait, i, i+1)
	}
	if !p.serves {
		p.f.open--
	}
}

// unregister has the NIC forget the process, if it knows it still, or is about to.
func (p *Process) unregister() error {
	n := p.host
	if i := slices.Index(n.procs, p); i >= 0 {
		n.procs = slices.Delete(n.procs, i, i+1)
		p.askToLeave()
	}
	return nil
}

// askToLeave asks the driver to delete the process, once.
func (p *Process) askToLeave() {
	if !p.leaving && !p.host.withdraw(p) {
		p.host.ask(p, true)
	}
	p.leaving = true
}

// unplug tells the process that its NIC has vanished. One that had not yet begun waits for the next.
func (p *Process) unplug() {
	if p.half == nil {
		p.slot = 0
		p.host.wait = append(p.host.wait, p)
		return
	}
	p.gone = true
	p.wakeAll()
}

// abandon unwinds what the run leaves behind.
func (p *Process) abandon() {
	for _, t := range p.tasks {
		p.f.s.abandon(t)
	}
}

// wakeAll wakes every function that waits in an operation. The NIC calls it.
func (p *Process) wakeAll() {
	for _, t := range p.waiting {
		p.f.s.wake(t)
	}
}

// Host returns the number of the process's host.
func (p *Process) Host() int { return p.host.index }

// Fabric returns the fabric of the process.
func (p *Process) Fabric() *Fabric { return p.f }

// Rand returns the process's own random source, which follows from the seed.
func (p *Process) Rand() *rand.Rand { return p.rng }

// Start runs a function concurrently with the main one. The function ends with the process. An error
// that it returns ends the run. [weft.Runtime.Go] starts a function that has no error to report.
func (p *Process) Start(name string, fn func(p *Process) error) {
	if p.over {
		return
	}
	p.start(p.name+" "+name, fn, nil)
}

// Weft returns the embedded *weft.Process, for code that knows nothing of the simulation.
func (p *Process) Weft() *weft.Process { return p.Process }

// Detached reports whether the NIC has expelled the process, for a state that no correct process
// reaches.
func (p *Process) Detached() bool { return p.detached }

// Over reports whether the process has ended.
func (p *Process) Over() bool { return p.over }

// running is the calling coroutine, which must be one of the process's.
func (p *Process) running() *task {
	t := p.f.s.current
	if t == nil || t.owner != any(p) {
		panic(fmt.Sprintf("sim: a function of %s blocks, but what runs now is not one of its functions; start them with Process.Start or Runtime.Go", p.name))
	}
	return t
}
