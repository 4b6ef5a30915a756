// Package resident makes programs of a NIC reside in the driver of its link. It joins the
// compiler (pdl/ebpf), the NIC's programs (internal/program), and the driver, which can show its
// frames to other programs first (internal/link/xdp).
//
//	Prepare: compiled, and loaded into the kernel ──► program.Table: Commit ──► Enter:
//	                                                                         it gets its datagrams
//	sessions of the NIC ── Session, EndSession ─────► their datagrams are answered in the driver
//	displayed values ── a ring ── a goroutine ──────► program.Table: the log of the program
//	flags that are set ── a ring ── a goroutine ────► program.Table: the processes that sleep
//
// The first program brings the chain of programs to the interface. The chain stays as long as the
// NIC. A NIC without resident programs has nothing in front of its sockets.
package resident

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	cilium "github.com/cilium/ebpf"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// Link is a driver that can show its frames to other programs first.
type Link interface {
	Addr() netip.AddrPort
	Frames() (tagged, pieces bool)
	Chain(steps *cilium.Map, first, on uint32) error
}

// Config gives the link and the engine of the programs.
type Config struct {
	Link Link
	// Do calls f while its goroutine owns the engine.
	Do func(f func(t *program.Table))
	// Now is the engine's clock, by which programs measure time.
	Now func() clock.Time
}

// Programs holds the programs in the driver of one NIC. Prepare and Close are safe for concurrent
// use; the rest is for the owner of the engine.
type Programs struct {
	cfg Config

	// linking is held while programs are compiled for the present segments, or while the segments
	// change. It is taken before mu, and without the engine.
	linking  sync.Mutex
	mu       sync.Mutex
	host     *ebpf.Host // nil until the first program
	closed   bool
	segments map[uint32]ebpf.Segment // the existing ones
	readers  sync.WaitGroup          // of displayed values, and of flags
	// gather waits while displayed values gather: it sleeps, except in tests.
	gather func()

	// sessions holds the sessions by NIC, as the driver knows them. It is for the owner of the
	// engine.
	sessions map[uint64]rel.DriverKeys

	listing sync.Mutex             // the last lock to take
	all     map[*resident]struct{} // those not closed yet
}

// New returns an empty Programs.
func New(cfg Config) *Programs {
	return &Programs{cfg: cfg, segments: make(map[uint32]ebpf.Segment), all: make(map[*resident]struct{}),
		sessions: make(map[uint64]rel.DriverKeys), gather: func() { time.Sleep(showPause) }}
}

// ErrSealed is the reason why no program can reside in the driver of a sealed link.
var ErrSealed = errors.New("the link is sealed, and the keys of its frames never enter eBPF maps; " +
	"plain_resident = true under [programs], " +
	"or Config.PlainResident, on both NICs lets datagrams of programs go unsealed")

// Sealed stands in for Prepare on a sealed link: it refuses each program with ErrSealed.
func Sealed(_ vm.ID, m *prog.Module) (program.Resident, error) {
	return nil, fmt.Errorf("%s cannot reside in the driver: %w", m.Name, ErrSealed)
}

// Prepare compiles a program for the driver and loads it into the kernel. The program gets no
// messages yet. The error says why the program cannot reside there.
func (p *Programs) Prepare(id vm.ID, m *prog.Module) (program.Resident, error) {
	if reasons := ebpf.Check(m); reasons != nil {
		return nil, fmt.Errorf("%s cannot reside in the driver: %w", m.Name, reasons)
	}
	host, err := p.begin()
	if err != nil {
		return nil, fmt.Errorf("%s cannot reside in the driver: %w", m.Name, err)
	}
	p.linking.Lock()
	defer p.linking.Unlock()
	p.mu.Lock()
	segments := p.segments
	p.mu.Unlock()
	obj, err := ebpf.Compile(m, ebpf.Options{ID: uint32(id), Service: wire.ServiceProgram, Path: p.path(),
		Segments: segments})
	if err != nil {
		return nil, fmt.Errorf("%s cannot reside in the driver: %w", m.Name, err)
	}
	loaded, err := obj.Load(host)
	if err != nil {
		return nil, err
	}
	r := &resident{loaded, p}
	p.listing.Lock()
	p.all[r] = struct{}{}
	p.listing.Unlock()
	return r, nil
}

// path returns the form of the frames at the interface.
func (p *Programs) path() ebpf.Path {
	tagged, _ := p.cfg.Link.Frames()
	return ebpf.Path{VLAN: tagged, IPv6: !p.cfg.Link.Addr().Addr().Unmap().Is4()}
}

// begin makes what the programs share, and puts it in front of the sockets. The first program
// calls it.
func (p *Programs) begin() (*ebpf.Host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, errors.New("the NIC is closed")
	case p.host != nil:
		return p.host, nil
	}
	_, pieces := p.cfg.Link.Frames()
	host, err := ebpf.NewHost(ebpf.HostConfig{Path: p.path(), Service: wire.ServiceProgram, Pieces: pieces})
	if err != nil {
		return nil, err
	}
	p.host = host // sessions are reported while the engine is ours
	p.cfg.Do(func(t *program.Table) {
		if err = p.cfg.Link.Chain(host.Steps(), ebpf.StepDispatch, ebpf.StepOn); err == nil {
			t.SetDriver(driver{p, host})
		}
	})
	if err != nil {
		p.host = nil
		return nil, errors.Join(err, host.Close())
	}
	p.readers.Add(2)
	go p.show(host)
	go p.ring(host)
	return host, nil
}

// driver receives the engine's reports about its sessions.
type driver struct {
	p    *Programs
	host *ebpf.Host
}

// Session implements program.Driver. The counter of replies begins at 1 with a session, and goes
// on through it.
func (d driver) Session(nic uint64, keys rel.DriverKeys) {
	d.EndSession(nic) // of an earlier session
	s := ebpf.Session{NIC: nic, Cookie: keys.Cookie, Most: keys.Most, ReplyIndex: keys.ReplyIndex,
		ReplyCookie: keys.ReplyCookie, ReplyCounter: 1}
	// Otherwise the engine gets its datagrams and handles them.
	if d.host.SetSession(keys.Index, s) == nil {
		d.p.sessions[nic] = keys
	}
}

// EndSession implements program.Driver.
func (d driver) EndSession(nic uint64) {
	if keys, ok := d.p.sessions[nic]; ok {
		// An error does no harm: an ended session has no more valid frames.
		_ = d.host.RemoveSession(keys.Index)
		delete(d.p.sessions, nic)
	}
}

// showPause is how long displayed values gather, so that a program that displays much does not
// keep this process awake.
const showPause = 50 * time.Millisecond

// shown is a value that a program has displayed.
type shown struct {
	program vm.ID
	value   int64
}

// show copies the displayed values of programs to their logs, until the host is closed.
func (p *Programs) show(host *ebpf.Host) {
	defer p.readers.Done()
	next := func(deadline time.Time) (s shown, err error) {
		id, value, err := host.Display(deadline)
		return shown{vm.ID(id), value}, err
	}
	for {
		all, err := batch(next)
		p.cfg.Do(func(t *program.Table) {
			for _, s := range all {
				t.Displayed(s.program, s.value)
			}
		})
		if err != nil {
			return
		}
		p.gather()
	}
}

// ring wakes the processes in whose segments programs have set a flag, until the host is closed.
// It does not wait for displayed values: a process sleeps until its flag is set.
func (p *Programs) ring(host *ebpf.Host) {
	defer p.readers.Done()
	for {
		all, err := batch(host.Rang)
		p.cfg.Do(func(t *program.Table) { rung(t, all) })
		if err != nil {
			return
		}
	}
}

// rung wakes the processes of the segments in the records of a ring. If there are many records,
// the ring may have been full and may lack others, so all segments ring.
func rung(t *program.Table, all []uint32) {
	if len(all) > ebpf.MostTold/4 {
		t.RangAll()
		return
	}
	slices.Sort(all)
	for _, segment := range slices.Compact(all) {
		t.Rang(segment)
	}
}

// batch waits for a record. It returns it with the records already present, at most about as many
// as a ring holds. The error means that no more will come.
func batch[T any](next func(deadline time.Time) (T, error)) (all []T, err error) {
	r, err := next(time.Time{})
	for err == nil {
		if all = append(all, r); len(all) == ebpf.MostTold {
			return all, nil
		}
		r, err = next(time.Now())
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return all, err
}

// Close removes everything from the driver. Before it, the engine must be closed, or no longer
// polled.
func (p *Programs) Close() error {
	p.mu.Lock()
	host := p.host
	p.host, p.closed = nil, true
	p.mu.Unlock()
	if host == nil {
		return nil
	}
	err := host.Close()
	p.readers.Wait()
	return err
}

// resident is a program in the driver as the engine sees it.
type resident struct {
	r  *ebpf.Resident
	of *Programs
}

// Enter implements program.Resident.
func (r *resident) Enter(data []int64) error {
	if err := r.r.SetClock(int64(r.of.cfg.Now()) - kernelClock()); err != nil {
		return err
	}
	if err := r.r.Start(data); err != nil {
		return err
	}
	return r.r.Attach()
}

// Leave implements program.Resident.
func (r *resident) Leave() (data []int64, stopped bool, err error) { return r.r.Withdraw() }

// Borrow implements program.Resident.
func (r *resident) Borrow(data []int64, f func(stopped bool) (stop bool)) error {
	if err := r.r.Take(); err != nil {
		return err
	}
	defer r.r.Give()
	if err := r.r.ReadWords(data); err != nil {
		return err
	}
	stop := f(r.r.Stopped())
	if err := r.r.SetWords(data); err != nil || !stop {
		return err
	}
	return r.r.Stop()
}

// Profile implements program.Resident.
func (r *resident) Profile() (vm.Profile, bool, error) {
	p, counts, err := r.r.Profile()
	return p, counts.Stopped, err
}

// Lost implements program.Resident.
func (r *resident) Lost() (program.Losses, error) {
	_, c, err := r.r.Profile()
	return program.Losses{Answers: c.SendsLost, Displays: c.DisplaysLost, Busy: c.Busy, Overtaken: c.Replays}, err
}

// Close implements program.Resident.
func (r *resident) Close() error {
	r.of.listing.Lock()
	delete(r.of.all, r)
	r.of.listing.Unlock()
	return r.r.Close()
}
