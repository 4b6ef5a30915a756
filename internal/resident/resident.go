// Package resident has programs of a NIC reside in the driver of its link: it joins what compiles them (pdl/ebpf) to the NIC's programs
// (internal/program) and to the driver that gives its frames to others first (internal/link/xdp).
//
//	Prepare: compiled, and loaded into the kernel ──► program.Table: Commit ──► Enter: it gets the datagrams that come for it
//	sessions of the NIC ── Session, EndSession ─────► whose datagrams are answered there
//	what programs display ── a ring ── a goroutine ─► program.Table: the log of the program
//	where they set flags  ── a ring ── a goroutine ─► program.Table: the processes that sleep
//
// The first program brings the chain of programs to the interface, which stays as long as the NIC: a NIC without resident programs has
// nothing in front of its sockets.
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

// Link is a driver whose frames other programs can see first.
type Link interface {
	Addr() netip.AddrPort
	Frames() (tagged, pieces bool)
	Chain(steps *cilium.Map, first, on uint32) error
}

// Config says whose programs these are.
type Config struct {
	Link Link
	// Do calls f when the engine is its caller's.
	Do func(f func(t *program.Table))
	// Now is the engine's clock, by which programs measure time.
	Now func() clock.Time
}

// Programs are those in the driver of one NIC. Prepare and Close may be called by many goroutines, the rest by the engine's caller.
type Programs struct {
	cfg Config

	linking  sync.Mutex // programs are compiled for the segments that there are, or these change; taken before mu, and without the engine
	mu       sync.Mutex
	host     *ebpf.Host // nil until the first program
	closed   bool
	segments map[uint32]ebpf.Segment // that are there
	readers  sync.WaitGroup          // of what programs display, and of where they set flags
	gather   func()                  // has what is displayed gather: sleeps, but in tests

	sessions map[uint64]rel.DriverKeys // by NIC, as the driver knows them; the engine's

	listing sync.Mutex             // taken last
	all     map[*resident]struct{} // those that are not closed
}

// New returns programs of which none is there yet.
func New(cfg Config) *Programs {
	return &Programs{cfg: cfg, segments: make(map[uint32]ebpf.Segment), all: make(map[*resident]struct{}),
		sessions: make(map[uint64]rel.DriverKeys), gather: func() { time.Sleep(showPause) }}
}

// ErrSealed is why no program can reside in the driver of a sealed link.
var ErrSealed = errors.New("the link is sealed, and the keys of its frames never enter eBPF maps; plain_resident = true under [programs], " +
	"or Config.PlainResident, on both NICs lets datagrams of programs go unsealed")

// Sealed stands in for Prepare on a sealed link: it refuses each program with ErrSealed.
func Sealed(_ vm.ID, m *prog.Module) (program.Resident, error) {
	return nil, fmt.Errorf("%s cannot reside in the driver: %w", m.Name, ErrSealed)
}

// Prepare compiles a program for the driver and gives it to the kernel. It gets no messages yet. The error says why it cannot reside there.
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
	obj, err := ebpf.Compile(m, ebpf.Options{ID: uint32(id), Service: wire.ServiceProgram, Path: p.path(), Segments: segments})
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

// path is how frames come to the interface.
func (p *Programs) path() ebpf.Path {
	tagged, _ := p.cfg.Link.Frames()
	return ebpf.Path{VLAN: tagged, IPv6: !p.cfg.Link.Addr().Addr().Unmap().Is4()}
}

// begin makes what programs share, and puts it in front of the sockets, with the first program.
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
	p.host = host // sessions are told while the engine is ours
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

// driver is what the engine tells of its sessions.
type driver struct {
	p    *Programs
	host *ebpf.Host
}

// Session implements program.Driver. The counter of replies begins at 1 with a session, and goes on through it.
func (d driver) Session(nic uint64, keys rel.DriverKeys) {
	d.EndSession(nic) // of one before
	s := ebpf.Session{NIC: nic, Cookie: keys.Cookie, Most: keys.Most, ReplyIndex: keys.ReplyIndex, ReplyCookie: keys.ReplyCookie, ReplyCounter: 1}
	if d.host.SetSession(keys.Index, s) == nil { // else its datagrams go to the engine, which handles them
		d.p.sessions[nic] = keys
	}
}

// EndSession implements program.Driver.
func (d driver) EndSession(nic uint64) {
	if keys, ok := d.p.sessions[nic]; ok {
		_ = d.host.RemoveSession(keys.Index) // frames of a session that has ended are in order for nothing
		delete(d.p.sessions, nic)
	}
}

// showPause is how long what is displayed gathers, so that a program that displays much does not keep this process awake.
const showPause = 50 * time.Millisecond

// shown is a number that a program has displayed.
type shown struct {
	program vm.ID
	value   int64
}

// show carries what programs display to their logs, until the host is closed.
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

// ring rings the processes for whose segments programs have set a flag, until the host is closed. It does not wait for what is displayed: a process sleeps
// until its flag is set.
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

// rung rings the processes of the segments in the records of a ring. If there are many records, the ring may have been full, and lacks others: so all
// segments ring.
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

// batch waits for a record, and takes with it those that are there already, about as many as a ring holds at most. The error says that no more will come.
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

// Close takes everything out of the driver. The engine must not be polled any more, or its link be closed.
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

// resident is a program in the driver, as the engine sees it.
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
