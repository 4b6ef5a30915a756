package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Process is one process of a fabric: a name at a NIC, and functions that run as coroutines.
//
// It is a *weft.Process, too, which can be handed to code that knows nothing of simulation. Its operations wait under
// virtual time.
type Process struct {
	*weft.Process

	f      *Fabric
	host   *node
	name   string
	main   func(*Process) error
	serves bool
	rng    *rand.Rand

	half *proc.Process
	seg  *vni.Segment
	rw   []byte
	slot uint16
	gen  uint32

	tasks    []*task
	waiting  []*task // parked in an operation
	detached bool    // the NIC serves it no more
	gone     bool    // the NIC has vanished
	over     bool
}

// Process starts a process on a host. Its name is like "app/3". main is its main function: the process ends when main
// returns, and Run ends when every main has returned. An error ends the run.
func (f *Fabric) Process(host int, name string, main func(p *Process) error) *Process {
	return f.launch(host, name, main, false)
}

// Serve starts a process whose main function need not return: Run does not wait for it.
func (f *Fabric) Serve(host int, name string, main func(p *Process) error) *Process {
	return f.launch(host, name, main, true)
}

func (f *Fabric) launch(host int, name string, main func(p *Process) error, serves bool) *Process {
	p := &Process{f: f, host: f.nodes[host], name: name, main: main, serves: serves}
	p.rng = rand.New(rand.NewPCG(f.seeds.Uint64(), f.seeds.Uint64()))
	f.procs = append(f.procs, p)
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

// begin registers the process at its NIC and starts its main function.
func (p *Process) begin() {
	if p.over {
		return
	}
	if err := p.register(); err != nil {
		p.leave()
		p.f.fail(fmt.Errorf("%v on host %d: %w", p.name, p.host.index, err))
		return
	}
	p.start(p.name, p.main, func(*task) { p.leave() })
}

func (p *Process) register() error {
	name, err := vni.ParseName(p.name)
	if err != nil {
		return err
	}
	h := &p.f.cfg.Hooks
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
	if p.slot, p.gen, err = p.host.engine.Register(name, p.seg, p.wakeAll); err != nil {
		return err
	}
	p.host.procs = append(p.host.procs, p)
	p.host.soon(noticeTime)
	if p.half, err = proc.New(p.seg, waiter{p}, memory{p}, proc.Options{}); err != nil {
		return err
	}
	p.Process = proc.Public(p.half, p.unregister).(*weft.Process)
	return nil
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

// unregister has the NIC forget the process, if it knows it still.
func (p *Process) unregister() error {
	n := p.host
	if i := slices.Index(n.procs, p); i >= 0 {
		n.procs = slices.Delete(n.procs, i, i+1)
		n.engine.Unregister(p.slot, p.gen)
		n.soon(noticeTime)
	}
	return nil
}

// unplug tells the process that its NIC has vanished.
func (p *Process) unplug() {
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

// Host is the number of the host that the process is on.
func (p *Process) Host() int { return p.host.index }

// Fabric is the fabric that the process is in.
func (p *Process) Fabric() *Fabric { return p.f }

// Now is the virtual time of day.
func (p *Process) Now() time.Time { return p.f.Now() }

// Rand is a source of chance of the process's own, drawn from the seed.
func (p *Process) Rand() *rand.Rand { return p.rng }

// Sleep blocks the calling function for d of virtual time.
func (p *Process) Sleep(d time.Duration) { p.running().sleep(d) }

// WithTimeout derives a context that ends after d of virtual time. As with package context, cancel must be called.
func (p *Process) WithTimeout(parent context.Context, d time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	return p.f.s.withDeadline(parent, p.f.s.now.Add(d))
}

// Go starts a function beside the main one, as the go statement would. It ends with the process; an error ends the run.
func (p *Process) Go(name string, fn func(p *Process) error) {
	if p.over {
		return
	}
	p.start(p.name+" "+name, fn, nil)
}

// Weft is the process as an application has it. Code that is written against *weft.Process runs on it as it is.
func (p *Process) Weft() *weft.Process { return p.Process }

// Half is the process half behind the *weft.Process. It is for Weft's own tests.
func (p *Process) Half() *proc.Process { return p.half }

// VNI is the process's interface to its NIC and the memory that both write. It is for Weft's own tests.
func (p *Process) VNI() (seg *vni.Segment, rw []byte) { return p.seg, p.rw }

// Ring makes the NIC look at the process's commands, as Weft's own tests must after they have posted some through VNI.
func (p *Process) Ring() { waiter{p}.Kick() }

// Detached reports whether the NIC has thrown the process out for a state that no correct process reaches.
func (p *Process) Detached() bool { return p.detached }

// Over reports whether the process has ended.
func (p *Process) Over() bool { return p.over }

// running is the calling coroutine, which must be one of the process's.
func (p *Process) running() *task {
	t := p.f.s.current
	if t == nil || t.owner != any(p) {
		panic(fmt.Sprintf("sim: a function of %s blocks, but what runs now is not one of its functions; start them with Process.Go", p.name))
	}
	return t
}
