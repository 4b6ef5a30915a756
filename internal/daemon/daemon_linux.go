// Package daemon is `weft nic`: one NIC for all the processes of a host, or several, one for each
// of several links (see door).
//
//	                    ctl socket                                loop (one thread)
//	process ── attach, alloc, free ──► connection's goroutine ──► Do ─┐
//	        ◄──────── descriptors ────                                ▼
//	        ═══════ shared memory: commands, payloads, doorbells ═══ engine ── frames ── link
//	        ── eventfd: "I posted" ─────────────────────────────────► ▲ │
//	        ◄─────────────────────────────── a byte: "look" ────────────┘
//
// The daemon makes all memory that processes share with it, and takes none from them. It closes a
// process that dies or that does what no working process can. Other processes do not notice.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/registry/gossip"
	"github.com/weftnet/weft/internal/resident"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/standin"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/version"
	"github.com/weftnet/weft/internal/vni"
)

// Daemon is one NIC, and the door by which processes reach it. A daemon with several links has a
// Daemon for each; they share the door.
type Daemon struct {
	*door
	settings    settings
	log         *slog.Logger
	id          registry.NICID
	incarnation uint64
	started     time.Time
	key         trust.PrivateKey // static
	live        atomic.Pointer[live]
	current     settings // with the changes of reloads; under door.reloading

	state    *state
	link     carried
	reasons  []string // why the link is as it was at the start
	counters *memory
	page     vni.CounterPage // over the first part of counters
	engine   *nic.Engine
	loop     *poller.Loop
	vnis     vnis
	driver   *driver.Registrar
	rings    driverWaiter // the waiter of driver
	control  *control
	programs *deploy.Site       // in the NIC
	resident *resident.Programs // in the driver of its link; nil: not possible
	gossip   *gossip.Registry   // nil: none
	listed   *registry.List     // nodes of the configuration, and those that tools have added
	registry registry.Registry  // these, and those heard by gossip

	jobs     *jobs
	machines *machines
	segments segments
	sessions map[uint16]*session // by slot; under the loop's lock
	colour   atomic.Uint32

	peerChanges uint64        // the loop's; see noticePeers
	faults      uint32        // the loop's: standin.Faults as last seen
	peerNews    chan struct{} // holds a token when there is something to look at

	// The nodes at the last look of watchPeers. The metrics read them.
	seen atomic.Pointer[[]nic.NodeInfo]

	thrown []ctl.Thrown // under door.mu
}

// New checks the configuration and takes everything that the daemon needs: socket, state and
// links. It returns the Daemon of the first link. Processes may connect at once, and are served
// after Run is called.
func New(c Config, logTo io.Writer) (*Daemon, error) {
	all, err := c.started()
	if err != nil {
		return nil, err
	}
	h := newDoor(c)
	log := newLog(logTo, &h.level)
	for _, s := range all {
		d := &Daemon{door: h, settings: s, current: s, log: log, started: time.Now(), sessions: map[uint16]*session{},
			segments: segments{all: map[uint32]*segment{}}, peerNews: make(chan struct{}, 1),
			listed: registry.NewList(s.nodes.Nodes())}
		d.live.Store(s.live(fabricKeys{}))
		d.jobs = &jobs{d, h.places}
		if len(all) > 1 {
			d.log = log.With("on", s.linkName())
		}
		h.links = append(h.links, d)
	}
	if err := h.take(); err != nil {
		h.places.close()
		return nil, errors.Join(err, h.close())
	}
	return h.links[0], nil
}

// take acquires what one link needs.
func (d *Daemon) take() (err error) {
	s := &d.settings
	if err = d.identify(); err != nil {
		return err
	}
	if d.link, err = d.openLink(); err != nil {
		return err
	}
	d.reasons = d.link.why()
	if err = d.capture(); err != nil {
		return err
	}
	if err = d.makeEngine(); err != nil {
		return err
	}
	page, err := vni.NewLoopPage(d.counters.mem[vni.LoopAt:])
	if err != nil {
		return err
	}
	d.loop, err = poller.NewLoop(d.engine, poller.LoopConfig{Link: d.link.Caps(), Turn: d.turn, Page: page})
	if err != nil {
		return err
	}
	if err = d.vnis.prepare(s.usual, s.prepared); err != nil {
		return err
	}
	d.rings.loop = d.loop
	d.programs = &deploy.Site{NIC: d.id, May: d.rights, Do: func(f func(*program.Table)) {
		d.loop.Do(func(clock.Time) { f(d.engine.Programs()) })
	}}
	d.reside()
	d.driver = driver.NewRegistrar(d.engine.Driver(), &d.rings)
	return d.joinGossip()
}

// reside lets programs reside in the driver of the link, if the link is AF_XDP and datagrams may
// go plain.
func (d *Daemon) reside() {
	if d.link.xdp == nil {
		return
	}
	if !d.engine.PlainPrograms() {
		d.programs.Driver = resident.Sealed
		return
	}
	d.resident = resident.New(resident.Config{Link: d.link.xdp, Do: d.programs.Do, Now: poller.Now})
	d.programs.Driver = d.resident.Prepare
}

// socketMode returns the mode of the socket. Every user may connect if users other than the owner
// are allowed: the kernel then tells the user of a client.
func (c Config) socketMode() os.FileMode {
	if len(c.AllowUIDs)+len(c.AllowGIDs) > 0 {
		return 0o666
	}
	return 0o600
}

// identify determines the id of this NIC and begins a new life of it.
func (d *Daemon) identify() (err error) {
	if d.state, err = openState(d.settings.stateDir); err != nil {
		return err
	}
	if d.key, err = d.settings.staticKey(true); err != nil {
		return err
	}
	if d.id = d.settings.id; d.id == 0 {
		d.id = d.key.Public().ID()
	}
	var k fabricKeys
	if k.keys, k.from, k.note, err = d.settings.fabricKeys(true); err != nil {
		return err
	}
	d.live.Store(d.settings.live(k))
	d.incarnation, err = d.state.nextIncarnation(d.started)
	return err
}

func (d *Daemon) makeEngine() (err error) {
	if d.counters, err = newMemory("counters", vni.StatBytes, true); err != nil {
		return err
	}
	if d.page, err = vni.NewCounterPage(d.counters.mem); err != nil {
		return err
	}
	peers, err := vni.NewPeerTable(d.counters.mem[vni.PeersAt:])
	if err != nil {
		return err
	}
	c := d.settings.config
	ec := nic.Config{
		Incarnation: d.incarnation, Secrets: secret.System(rand.Reader), Link: d.link.carrier,
		ReceiveCapacity:  uint64(d.link.Caps().ReceiveBuffer()),
		UnreachableAfter: time.Duration(c.UnreachableAfter), FailureTimeout: c.failureTimeout(),
		MaxProcesses: c.maxProcesses(), StagingBytes: c.StagingBytes,
		Clock: poller.Now, Static: c.Static, Counters: d.page, Peers: peers, Rung: d.rings.rung,
		Position: d.positionIn(&d.settings),
		// One node is enough to join: the peers hold the fabric key.
		Belief: nic.Belief{HearsayFromPeers: true},
	}
	if err := d.settings.seal(&ec, d.key, d.live.Load().keys.keys); err != nil {
		return err
	}
	if d.engine, err = nic.New(ec); err != nil {
		return err
	}
	for _, n := range d.others(d.settings.nodes.Nodes()) {
		if err := d.addNode(n); err != nil {
			return err
		}
	}
	return nil
}

// ID returns the NIC's id.
func (d *Daemon) ID() registry.NICID { return d.id }

// Addr returns the address at which the NIC's link listens.
func (d *Daemon) Addr() netip.AddrPort { return d.link.Addr() }

// Socket returns the path of the socket at which processes attach.
func (d *Daemon) Socket() string { return d.settings.socket }

// Run serves every link until ctx is done or a client asks for the end. It then says goodbye to
// peers and processes. The daemon cannot be used after Run returns.
func (d *Daemon) Run(ctx context.Context) error { return d.door.run(ctx) }

// tell logs the link, its properties and how it was chosen.
func (d *Daemon) tell() {
	if why := d.counters.unsealed; why != nil {
		d.log.Warn("shared memory has no seals: only processes of this user may attach", "why", why)
	}
	d.log.Info("NIC is up", "nic", d.id, "incarnation", d.incarnation, "address", d.Addr(), "socket", d.Socket(),
		"link", d.link.name, "version", version.Release, "commit", version.Commit(), "mtu", d.link.MTU(),
		"gso", d.link.Offload(), "receive_buffer", d.link.Caps().ReceiveBuffer(),
		"nodes", len(d.others(d.settings.nodes.Nodes())))
	for _, what := range d.reasons {
		d.log.Info("link", "what", what)
	}
	d.tellTrust()
}

// follow starts the goroutines that serve the link until ctx is done. The loop and the control
// process must be running.
func (d *Daemon) follow(ctx context.Context, rest *sync.WaitGroup) {
	rest.Go(func() { d.watchNodes(ctx) })
	rest.Go(func() { d.watchRevocations(ctx) })
	rest.Go(func() { d.followLink(ctx) })
	rest.Go(func() {
		paths := time.NewTicker(lookAtPathsEvery)
		defer paths.Stop()
		d.watchPeers(ctx, paths.C)
	})
	d.control.serve(ctx, rest)
}

// close frees what take acquired. Nothing may be running any more.
func (d *Daemon) close() error {
	errs := []error{d.leaveGossip()}
	if d.resident != nil {
		errs = append(errs, d.resident.Close())
	}
	if d.loop != nil {
		errs = append(errs, d.loop.Close())
	}
	if d.link.carrier != nil {
		errs = append(errs, d.link.Close())
	}
	errs = append(errs, d.vnis.close())
	if d.counters != nil {
		errs = append(errs, d.counters.close())
	}
	if d.state != nil {
		errs = append(errs, d.state.close())
	}
	return errors.Join(errs...)
}

// turn is called by the loop after each poll. It closes the connections of processes that the
// engine threw out; everything else of a process goes with its connection.
func (d *Daemon) turn(clock.Time) {
	d.noticePeers()
	if n := standin.Faults(); n != d.faults {
		d.faults = n
		d.expelFaulty()
	}
	for _, n := range d.engine.TakeNameless() {
		if s := d.sessions[n.Slot]; s != nil {
			go d.log.Warn("another process has the name now", "process", s.name, "slot", s.slot, "pid", s.pid,
				"nic", registry.NICID(n.Owner.NIC), "there", n.Owner.Slot)
		}
	}
	for _, out := range d.engine.TakeDetached() {
		// This is never a later process of the slot: the engine forgets a detached process only
		// when that process is deleted.
		s := d.sessions[out.Slot]
		if s == nil {
			continue
		}
		s.expelled.Store(true)
		go d.expel(s, out.Why)
	}
}

// expelFaulty throws out the processes whose memory had pages that the kernel could not provide.
// The engine has gone on with zeros there. A segment with such a page is zeros from then on, for
// all processes that share it.
func (d *Daemon) expelFaulty() {
	for _, s := range d.sessions {
		if at := s.fault(); at != 0 && !s.expelled.Swap(true) {
			go d.expel(s, fmt.Errorf("memory fault at %#x", at))
		}
	}
}
