// Package launchtest is a simulated machine for package launch: hosts with daemons, keepers and
// ranks, on virtual time. The launcher and the keepers are those of package launch. The daemons
// and the ranks are fakes, whose invariants a World checks.
package launchtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/sim"
)

// Event is a step of a job, in the order in which the steps happen.
type Event struct {
	What string // "reserve", "ready", "refused", "start", "rank", "ended", "gone"
	Host int
	Rank int
}

// World is a simulated machine. One goroutine uses it.
type World struct {
	F     *sim.Fabric
	Hosts []*Host

	// Program is what each rank does. It returns the rank's end.
	Program func(r *Rank) launch.Exit

	// At is called at each step. It may be nil.
	At func(Event)

	// Stage is launch.KeepOptions.Stage of every keeper.
	Stage func(ctx context.Context, p *weft.Process, manifest []byte, hosts int) error

	Killed   int    // calls of Kill by launchers
	KilledBy string // ctl.KeeperKill.By of World.Kill

	Launcher Sleeper // of the last Launch

	// Defect is a mistake of all keepers.
	Defect mutate.LaunchDefect

	Events []Event
	beside *Datagrams // nil: there is no path without the NICs
	broken []string
	voted  map[string]map[int]bool // by application: the hosts that were ready
}

// Host is one host of a World.
type Host struct {
	w      *World
	index  int
	Slots  int
	taken  int
	daemon *sim.Process
	down   bool // its daemon has ended
	warm   *warm

	// Keep replaces launch.Keep on this host, unless it is nil.
	Keep func(p *sim.Process, r *ctl.Reserve) error

	// Refuse returns the refusals of the host. It may be nil.
	Refuse func(*ctl.Reserve) []ctl.Refusal

	Keepers []*Keeper
}

// Keeper is one keeper, in one life.
type Keeper struct {
	*ctl.Reserve
	Process *sim.Process
	host    *Host
	link    *link
	set     *set
	vote    *ctl.FromKeeper // its answer to the reservation
	Over    bool
	Err     error // that Keep returned
}

// deskTag is the tag of requests to a daemon.
const deskTag = 7

// deskName returns the name of the process that plays the daemon of a host.
func deskName(host int) weft.Name { return weft.Name{App: "desk", Index: uint32(host)} }

// New makes a World whose hosts have the same number of slots each.
func New(cfg sim.Config, slots int) *World {
	w := &World{F: sim.New(cfg), voted: make(map[string]map[int]bool)}
	for i := range max(cfg.NICs, 1) {
		h := &Host{w: w, index: i, Slots: slots}
		w.Hosts = append(w.Hosts, h)
		w.boot(h)
	}
	return w
}

// boot starts the daemon of a host.
func (w *World) boot(h *Host) {
	h.daemon = w.F.Serve(h.index, deskName(h.index).String(), func(p *sim.Process) error {
		h.serve(p)
		return nil
	})
}

// Options returns the options of a job with some ranks on each host, the first one included.
func (w *World) Options(perHost int) launch.Options {
	o := launch.Options{Job: "job-00000001", Program: "/bin/program", Argv: []string{"program"}, Dir: "/", Version: "1"}
	for i := range w.Hosts {
		h := launch.Host{Name: fmt.Sprintf("h%d", i), NIC: sim.NICID(i)}
		for range perHost {
			h.Ranks = append(h.Ranks, i*perHost+len(h.Ranks))
		}
		o.Hosts = append(o.Hosts, h)
	}
	return o
}

// Launch starts a launcher on host 0, and calls done with its result.
func (w *World) Launch(o launch.Options, c launch.Console, control func(*launch.Control),
	done func(*launch.Result)) *sim.Process {
	return w.F.Process(0, launch.LauncherName(o.Job).String(), func(p *sim.Process) error {
		for i := range w.Hosts { // nodes are known before a job starts
			if _, err := p.WaitName(context.Background(), deskName(i)); err != nil {
				return err
			}
			if w.Hosts[i].warm == nil {
				continue
			}
			if _, err := p.WaitName(context.Background(),
				launch.KeeperName(&ctl.Reserve{Job: o.Job, Host: i})); err != nil {
				return err
			}
		}
		k := launch.NewControl(p.Runtime())
		if control != nil {
			control(k)
		}
		w.Launcher = Sleeper{p}
		if w.beside != nil {
			o.Notices.Datagrams.(*End).use(p.Runtime())
		}
		r, err := launch.Run(context.Background(), p.Weft(), desk{w, p}, o, c, k)
		if err == nil {
			done(r)
		}
		return err
	})
}

// Sleeper lets the functions of a process wait.
type Sleeper struct{ p *sim.Process }

// Sleep waits for a while.
func (s Sleeper) Sleep(d time.Duration) { _ = s.p.Runtime().Sleep(context.Background(), d) }

// Think makes the daemon of a host wait within Refuse.
func (h *Host) Think(d time.Duration) { Sleeper{h.daemon}.Sleep(d) }

func (w *World) step(e Event) {
	w.Events = append(w.Events, e)
	if w.At != nil {
		w.At(e)
	}
}

// breaks notes that an invariant is broken.
func (w *World) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("after %v: ", w.F.Elapsed())+fmt.Sprintf(format, args...))
}

// Check returns the invariants that are broken after the end of all jobs: no rank lives and no slot
// is taken.
func (w *World) Check() error {
	broken := slices.Clone(w.broken)
	for _, h := range w.Hosts {
		if h.taken != 0 {
			broken = append(broken, fmt.Sprintf("host %d: %d slots are taken", h.index, h.taken))
		}
		for _, k := range h.Keepers {
			if !k.Over {
				broken = append(broken, fmt.Sprintf("host %d: keeper %v lives", h.index, launch.KeeperName(k.Reserve)))
			}
			if n := k.Alive(); n > 0 {
				broken = append(broken, fmt.Sprintf("host %d: %d ranks of %s live", h.index, n, k.Application()))
			}
		}
	}
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "\n"))
	}
	return nil
}

// Alive returns how many ranks live on all hosts.
func (w *World) Alive() (n int) {
	for _, h := range w.Hosts {
		for _, k := range h.Keepers {
			n += k.Alive()
		}
	}
	return n
}

// Alive returns how many ranks of the keeper live.
func (k *Keeper) Alive() int {
	if k.set == nil {
		return 0
	}
	return k.set.alive()
}

// desk is the launcher's access to the daemons.
type desk struct {
	w *World
	p *sim.Process
}

// Reserve asks the process that plays the daemon.
func (d desk) Reserve(ctx context.Context, nic weft.NICID, r *ctl.Reserve) (*ctl.JobReply, error) {
	request, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	reply := make([]byte, 64<<10)
	m, err := d.p.Peer(deskName(int(nic-sim.NICID(0)))).Call(ctx, deskTag, request, reply)
	if err != nil {
		return nil, err
	}
	var answer ctl.JobReply
	return &answer, json.Unmarshal(reply[:m.Len], &answer)
}

// Kill ends the keepers of a job on a host, as its daemon does.
func (d desk) Kill(_ context.Context, nic weft.NICID, id string) error {
	d.w.Killed++
	for _, k := range d.w.Hosts[int(nic-sim.NICID(0))].Keepers {
		if k.Application() == id {
			d.w.F.Kill(k.Process)
		}
	}
	return nil
}

// serve answers each request in its own goroutine.
func (h *Host) serve(p *sim.Process) {
	for {
		m, err := p.RecvAlloc(context.Background(), weft.AnyProcess, deskTag, 64<<10)
		if err != nil {
			return
		}
		p.Runtime().Go(func() { h.answer(p, m) })
	}
}

func (h *Host) answer(p *sim.Process, m weft.Message) {
	var r ctl.Reserve
	reply := ctl.JobReply{NIC: registry.NICID(sim.NICID(h.index))}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		reply.Refusals = []ctl.Refusal{{What: ctl.RefusedHost, Text: err.Error()}}
	} else if k, refusals := h.reserve(p, &r); len(refusals) > 0 {
		reply.Refusals = refusals
		h.w.step(Event{What: "refused", Host: h.index})
	} else {
		reply.Ready, reply.PID = true, 1000+len(h.Keepers)
		at := k.Process.Address()
		reply.Keeper = &ctl.Address{NIC: registry.NICID(at.NIC), Slot: at.Slot, Generation: at.Generation}
		h.w.vote(k)
	}
	text, err := json.Marshal(reply)
	if err == nil {
		_ = p.Reply(context.Background(), m, text)
	}
}

// vote notes that a host is ready.
func (w *World) vote(k *Keeper) {
	app := k.Application()
	if w.voted[app] == nil {
		w.voted[app] = make(map[int]bool)
	}
	w.voted[app][k.Host] = true
	w.step(Event{What: "ready", Host: k.host.index})
}

// reserve takes slots, starts a keeper and waits for its answer.
func (h *Host) reserve(p *sim.Process, r *ctl.Reserve) (*Keeper, []ctl.Refusal) {
	h.w.step(Event{What: "reserve", Host: h.index})
	if h.Refuse != nil {
		if l := h.Refuse(r); len(l) > 0 {
			return nil, l
		}
	}
	if h.taken+r.Ranks > h.Slots {
		return nil, []ctl.Refusal{{What: ctl.RefusedSlots, Cure: "add --oversubscribe",
			Text: fmt.Sprintf("%d of %d slots free", h.Slots-h.taken, h.Slots)}}
	}
	k := h.spawn(p, r)
	ctx, cancel := p.Runtime().WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if p.Runtime().WaitUntil(ctx, func() bool { return k.vote != nil || k.Over }) != nil || k.Over {
		return nil, []ctl.Refusal{{What: ctl.RefusedHost, Text: "the keeper did not answer"}}
	}
	return k, k.vote.Refusals
}

// spawn starts a keeper. Its slots are free again when it has ended, however it ends.
func (h *Host) spawn(daemon *sim.Process, r *ctl.Reserve) *Keeper {
	k := &Keeper{Reserve: r, host: h, link: &link{}}
	h.taken += r.Ranks
	h.Keepers = append(h.Keepers, k)
	keep := func(p *sim.Process) error {
		defer k.ended(daemon)
		k.link.open(p.Runtime())
		k.vote = &ctl.FromKeeper{Ready: true}
		daemon.Runtime().Wake()
		if h.Keep != nil {
			k.Err = h.Keep(p, r)
			return nil
		}
		k.Err = launch.Keep(context.Background(), p.Weft(), r, launch.KeepOptions{
			Start:   func(s launch.Start, c launch.Callbacks) (launch.Set, error) { return k.start(p, s, c) },
			Stage:   h.w.Stage,
			Notices: h.w.notices(p, h.index),
			Defect:  h.w.Defect,
		}, k.link)
		return nil
	}
	if x := h.warm; x != nil {
		h.warm, k.Process, x.keep = nil, x.p, keep
		x.p.Runtime().Wake()
		return k
	}
	k.Process = h.w.F.Serve(h.index, launch.KeeperName(r).String(), keep)
	h.w.F.After(10*time.Millisecond, func() { k.look(daemon) })
	return k
}

// warm is a process that is attached before it is needed.
type warm struct {
	p    *sim.Process
	keep func(*sim.Process) error
}

// Warm attaches the keepers of a job before it is launched. A launch then takes no time for their
// names, whose homes must confirm them.
func (w *World) Warm(o launch.Options) {
	for i, h := range w.Hosts {
		x := &warm{}
		h.warm = x
		name := launch.KeeperName(&ctl.Reserve{Job: o.Job, Host: i})
		x.p = w.F.Serve(h.index, name.String(), func(p *sim.Process) error {
			if err := p.Runtime().WaitUntil(context.Background(), func() bool { return x.keep != nil }); err != nil {
				return err
			}
			return x.keep(p)
		})
	}
}

// look notices the end of a keeper that has not begun.
func (k *Keeper) look(daemon *sim.Process) {
	switch {
	case k.Over:
	case k.Process.Over():
		k.ended(daemon)
	case k.host.down && k.vote == nil: // the keeper finds no daemon to attach to
		k.host.w.F.Kill(k.Process)
		k.ended(daemon)
	default:
		k.host.w.F.After(10*time.Millisecond, func() { k.look(daemon) })
	}
}

// ended does what the kernel and the daemon do at the end of a keeper.
func (k *Keeper) ended(daemon *sim.Process) {
	if k.Over {
		return
	}
	k.Over = true
	k.host.taken -= k.Ranks
	if k.set != nil {
		k.set.dies() // by their parent-death signal, and by the daemon
	}
	k.host.w.step(Event{What: "gone", Host: k.host.index})
	if !daemon.Over() {
		daemon.Runtime().Wake()
	}
}

// Run lets time pass until a launcher has ended, and then for a while, in which all lost
// processes must end too. It returns the invariants that are broken then.
func (w *World) Run(launcher *sim.Process, timeout, after time.Duration) error {
	for until := w.F.Elapsed() + timeout; !launcher.Over(); {
		if err := w.Pass(100 * time.Millisecond); err != nil {
			return err
		}
		if w.F.Elapsed() > until {
			return fmt.Errorf("the launcher has not ended after %v", timeout)
		}
	}
	if err := w.Pass(after); err != nil {
		return err
	}
	return errors.Join(w.Check(), w.F.Run(0))
}

// Pass lets time pass, even if nothing happens.
func (w *World) Pass(d time.Duration) error {
	w.F.After(d, func() {})
	return w.F.Settle(d)
}

// start starts the ranks, and checks that every host of the job was ready.
func (k *Keeper) start(p *sim.Process, s launch.Start, c launch.Callbacks) (launch.Set, error) {
	w := k.host.w
	w.step(Event{What: "start", Host: k.host.index})
	if n := len(w.Hosts); len(w.voted[s.App()]) < n {
		w.breaks("host %d starts ranks of %s, but only %d of %d hosts were ready", k.host.index, s.App(),
			len(w.voted[s.App()]), n)
	}
	k.set = newSet(w, p, s, c)
	k.set.run()
	return k.set, nil
}

// StopDaemon ends the daemon of a host: its NIC and its links to keepers.
func (w *World) StopDaemon(host int) {
	h := w.Hosts[host]
	h.down = true
	w.F.StopNIC(host)
	for _, k := range h.Keepers {
		k.link.close()
		if k.Process.Weft() == nil { // it cannot attach, and so it ends
			w.F.Kill(k.Process)
		}
	}
}

// Kill sends a daemon's kill to all its keepers.
func (w *World) Kill(host int, grace time.Duration) {
	for _, k := range w.Hosts[host].Keepers {
		k.link.tell(&ctl.ToKeeper{Kill: &ctl.KeeperKill{Grace: int64(grace), By: w.KilledBy}})
	}
}

// Stop tells all keepers of a host that their daemon stops.
func (w *World) Stop(host int) {
	for _, k := range w.Hosts[host].Keepers {
		k.link.tell(&ctl.ToKeeper{Stops: true})
	}
}

// link is a keeper's connection to its daemon.
type link struct {
	gate   *weft.Gate
	queue  []*ctl.ToKeeper
	closed bool
	Said   []*ctl.FromKeeper
}

func (l *link) open(r weft.Runtime) { l.gate = r.NewGate() }

func (l *link) tell(m *ctl.ToKeeper) {
	l.queue = append(l.queue, m)
	if l.gate != nil {
		l.gate.Open()
	}
}

func (l *link) close() {
	l.closed = true
	if l.gate != nil {
		l.gate.Open()
	}
}

// Told waits for the daemon's next message.
func (l *link) Told(ctx context.Context) (*ctl.ToKeeper, error) {
	for len(l.queue) == 0 {
		if l.closed {
			return nil, errors.New("the daemon has closed the link")
		}
		if err := l.gate.Wait(ctx); err != nil {
			return nil, err
		}
	}
	m := l.queue[0]
	l.queue = l.queue[1:]
	return m, nil
}

// Answer keeps the keeper's message.
func (l *link) Answer(m *ctl.FromKeeper) error {
	l.Said = append(l.Said, m)
	return nil
}
