// Package resident has programs of a NIC reside in the driver of its link: it joins what compiles them (pdl/ebpf) to the NIC's programs
// (internal/program) and to the driver that gives its frames to others first (internal/link/xdp).
//
//	Prepare: compiled, and loaded into the kernel ──► program.Table: Commit ──► Enter: it gets the datagrams that come for it
//	sessions of the NIC ── Session, EndSession ─────► whose datagrams are answered there
//	what programs display ── a ring ── a goroutine ─► program.Table: the log of the program
//
// The first program brings the chain of programs to the interface, which stays as long as the NIC: a NIC without resident programs has
// nothing in front of its sockets.
package resident

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
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
	shown    chan struct{}           // closed when nobody reads what is displayed any more

	sessions map[uint64]rel.DriverKeys // by NIC, as the driver knows them; the engine's

	listing sync.Mutex             // taken last
	all     map[*resident]struct{} // those that are not closed
}

// New returns programs of which none is there yet.
func New(cfg Config) *Programs {
	return &Programs{cfg: cfg, segments: make(map[uint32]ebpf.Segment), all: make(map[*resident]struct{}),
		sessions: make(map[uint64]rel.DriverKeys)}
}

// Prepare compiles a program for the driver and gives it to the kernel. It gets no messages yet. The error says why it cannot reside there.
func (p *Programs) Prepare(id vm.ID, m *prog.Module, lookup func(of prog.SymbolKind, name string) (int64, bool)) (program.Resident, error) {
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
	obj, err := ebpf.Compile(m, ebpf.Options{ID: uint32(id), Service: wire.ServiceProgram, Path: p.path(), Lookup: lookup, Segments: segments})
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
	p.shown = make(chan struct{})
	go p.show(host)
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

// show carries what programs display to their logs, and rings processes for whose segments they have set a flag, until the host is closed.
func (p *Programs) show(host *ebpf.Host) {
	defer close(p.shown)
	var all []ebpf.Event
	for {
		e, err := host.Next(time.Time{})
		for err == nil {
			if all = append(all, e); len(all) == mostShown {
				break
			}
			e, err = host.Next(time.Now()) // what is there already
		}
		rang := false
		p.cfg.Do(func(t *program.Table) {
			for _, e := range all {
				if rang = rang || e.Rang; e.Rang {
					t.Rang(uint32(e.Value))
				} else {
					t.Displayed(vm.ID(e.Program), e.Value)
				}
			}
			if len(all) > mostShown/4 { // the ring may have been full
				t.RangAll()
			}
		})
		all = all[:0]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if !rang { // for a flag, a process may wait
			time.Sleep(showPause)
		}
	}
}

// mostShown is how many events are carried at once: about as many as a ring holds.
const mostShown = 2048

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
	<-p.shown
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

// Leave implements program.Resident. Who has been let in by then is waited for.
func (r *resident) Leave() (data []int64, stopped bool, err error) {
	if err = r.r.Detach(); err != nil {
		return nil, false, err
	}
	err = r.r.Borrow(func() (err error) {
		data, err = r.r.Words()
		return err
	})
	if err != nil {
		return nil, false, err
	}
	_, counts, err := r.r.Profile()
	return data, counts.Stopped, err
}

// Borrow implements program.Resident.
func (r *resident) Borrow(f func(data []int64) (after []int64, stop bool)) error {
	return r.r.Borrow(func() error {
		data, err := r.r.Words()
		if err != nil {
			return err
		}
		after, stop := f(data)
		if err := r.r.SetWords(after); err != nil || !stop {
			return err
		}
		return r.r.Stop()
	})
}

// Profile implements program.Resident.
func (r *resident) Profile() (vm.Profile, bool, error) {
	p, counts, err := r.r.Profile()
	return p, counts.Stopped, err
}

// Close implements program.Resident.
func (r *resident) Close() error {
	r.of.listing.Lock()
	delete(r.of.all, r)
	r.of.listing.Unlock()
	return r.r.Close()
}
