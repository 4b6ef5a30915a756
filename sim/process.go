package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Process is a process on a simulated host. Its main function, and the functions started by
// [Process.Start], run as coroutines, one at a time.
//
// Process embeds a *weft.Process, whose operations wait in virtual time. Code under test uses the
// embedded process and needs no knowledge of the simulation. The embedded pointer is nil until the
// main function starts.
type Process struct {
	*weft.Process

	f      *Fabric
	host   *node
	name   string
	main   func(*Process) error
	serves bool
	rng    *rand.Rand

	half    *proc.Process // nil until the NIC has registered the process, as is the *weft.Process
	seg     *vni.Segment
	rw      []byte
	vniName vni.Name
	pid     uint32
	slot    uint16 // 0: none yet
	gen     uint32
	leaving bool // its deletion is requested

	tasks    []*task
	paused   clock.Time // no function runs before this time; see Fabric.Pause
	waiting  []*task    // parked in an operation
	detached bool       // the NIC has expelled it
	gone     bool       // the NIC has vanished
	over     bool
}

// Process starts a process on a host. The process has a name such as "app/3", and runs the function
// main. The process ends when main returns. Run waits until main returns. If main returns an error,
// the run fails with this error. Process panics if the host does not exist.
func (f *Fabric) Process(host int, name string, main func(p *Process) error) *Process {
	return f.launch(host, name, main, false)
}

// Serve starts a process like Process does, but Run does not wait for the end of this process. The
// function main need not return.
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

// begin asks the driver to register the process. Its main function starts after the NIC's answer.
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

// prepare makes the process's name and its VNI.
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

// taken handles the NIC's answer to the process's registration.
func (p *Process) taken(r driver.Result) {
	n := p.host
	if p.leaving { // its deletion is posted, and answered next
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
	o := proc.Options{Names: p.liveNames, Straight: newStraight(p), NewGate: virtual{p}.NewGate}
	if p.half, err = proc.New(p.seg, waiter{p}, memory{p}, o); err != nil {
		p.refused(err)
		return
	}
	p.Process = proc.Public(p.half, p.unregister, virtual{p}).(*weft.Process)
	p.start(p.name, p.main, func(*task) { p.leave() })
}

// liveNames returns the names of the processes that the NIC can reach.
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

// refused ends a process that could not be registered.
func (p *Process) refused(err error) {
	p.leave()
	if told := p.f.cfg.hooks.Refused; told != nil {
		told(p, err)
		return
	}
	p.f.fail(fmt.Errorf("%v on host %d: %w", p.name, p.host.index, err))
}

// start runs a function of the process as a coroutine.
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

// leave ends the process: it kills its functions and asks the NIC to delete it.
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

// unregister asks the driver to delete the process, unless it was already deleted.
func (p *Process) unregister() error {
	n := p.host
	if i := slices.Index(n.procs, p); i >= 0 {
		n.procs = slices.Delete(n.procs, i, i+1)
		p.askToLeave()
	}
	return nil
}

// askToLeave asks the driver to delete the process, at most once.
func (p *Process) askToLeave() {
	if !p.leaving && !p.host.withdraw(p) {
		p.host.ask(p, true)
	}
	p.leaving = true
	p.host.leaveSegments(p)
}

// unplug tells the process that its NIC has vanished. A process that has not begun waits for the
// next NIC.
func (p *Process) unplug() {
	if p.half == nil {
		p.slot = 0
		p.host.wait = append(p.host.wait, p)
		return
	}
	p.gone = true
	p.wakeAll()
}

// abandon unwinds the functions that still run at the end of the run.
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

// Rand returns the process's own random source. The seed of the fabric decides its values.
func (p *Process) Rand() *rand.Rand { return p.rng }

// Start runs the function fn concurrently with the main function. Error reports show the name of
// the process and the given name of the function. The function fn ends when the process ends. If fn
// returns an error or panics, the run fails with a [*Failure]. If the process has ended, Start does
// nothing. To run a function that returns no error, use [weft.Runtime.Go].
func (p *Process) Start(name string, fn func(p *Process) error) {
	if p.over {
		return
	}
	p.start(p.name+" "+name, fn, nil)
}

// Weft returns the embedded *weft.Process, for code that knows nothing of the simulation.
func (p *Process) Weft() *weft.Process { return p.Process }

// Detached reports whether the NIC has expelled the process. A NIC expels a process if the process
// is in a state that no correct process reaches.
func (p *Process) Detached() bool { return p.detached }

// Over reports whether the process has ended.
func (p *Process) Over() bool { return p.over }

// running returns the calling coroutine. It panics if that is none of the process's.
func (p *Process) running() *task {
	t := p.f.s.current
	if t == nil || t.owner != any(p) {
		panic(fmt.Sprintf("sim: a call of process %s blocks outside its functions; "+
			"start each of them with Process.Start or Runtime().Go", p.name))
	}
	return t
}
