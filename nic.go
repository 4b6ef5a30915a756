package weft

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/poller"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/resident"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
)

// NIC is a network interface inside this process. A goroutine that waits for it polls it; when none does, one of the NIC's
// own takes over. It serves any number of processes, which here are just names that parts of the program go by.
type NIC struct {
	id     NICID
	addr   string
	engine *nic.Engine
	poller *poller.Poller
	link   link.Driver
	driver *driver.Registrar // of processes
	site   *deploy.Site      // of programs
	log    *slog.Logger      // nil: none

	resident *resident.Programs // in the driver of the link; nil: none can be there

	mu        sync.Mutex
	procs     map[*Process]struct{}
	segments  map[uint32]*sharedSegment // by number
	closed    bool
	attaching sync.WaitGroup // calls of Attach that have begun while it was open, and have not put their process into procs. Added to under mu

	end func() error // once: what Close does
}

// Open makes a NIC inside this process with one process on it. Closing the process closes the NIC.
//
// For nodes that are not there it waits half a second at most. [ErrNameTaken] says which process of the fabric has the name. A program
// that was killed and is started again can be told so until the NIC of its earlier life is missed, which takes ten seconds at most,
// or twice Config.UnreachableAfter if that is more. With the Config.ID of that NIC it has its name at once.
// [ErrBadArgument] says what is wrong with the configuration, and a [GroupError] what kept the process from a group. Other errors are the
// system's, such as that an address is in use.
func Open(ctx context.Context, cfg Config) (*Process, error) {
	n, err := OpenNIC(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p, err := n.Attach(ctx, cfg.Name, cfg.Groups...)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	p.closeNIC = true
	return p, nil
}

// OpenNIC makes a NIC inside this process, with no process on it yet. It fails as [Open] does where the configuration is wrong, and with
// what the system says.
func OpenNIC(ctx context.Context, cfg Config) (*NIC, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d := cfg.UnreachableAfter; d != 0 && (d < limits.LeastUnreachableAfter || d > limits.MostUnreachableAfter) {
		return nil, argument(fmt.Errorf("weft: Config.UnreachableAfter is %v; expected %v to %v, or 0 for the default of %v", d, limits.LeastUnreachableAfter, limits.MostUnreachableAfter, limits.UnreachableAfter))
	}
	d, err := cfg.driver()
	if err != nil {
		return nil, err
	}
	return openNIC(cfg, d)
}

// openNIC makes a NIC on a link, which is the NIC's from now on.
func openNIC(cfg Config, d link.Driver) (n *NIC, err error) {
	n = &NIC{id: cfg.ID, addr: addrString(d.Addr()), link: d, log: cfg.Log, procs: make(map[*Process]struct{})}
	ec := nic.Config{ID: uint64(cfg.ID), Incarnation: uint64(time.Now().UnixNano()), Secrets: secret.System(rand.Reader), Link: d, UnreachableAfter: cfg.UnreachableAfter, Clock: poller.Now}
	if ec.Position, err = cfg.Position.nic(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := cfg.seal(&ec); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	n.id = NICID(ec.ID)
	ec.HearsayFromPeers = true // one node is enough to join: peers hold the fabric key, or a plain link is private
	caps := d.Caps()
	if caps.ReceiveBuffer != nil {
		ec.ReceiveCapacity = uint64(caps.ReceiveBuffer())
	}
	if n.engine, err = nic.New(ec); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, node := range cfg.Nodes {
		addr, err := node.address()
		if err == nil {
			err = n.addNode(node, addr)
		}
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	if n.poller, err = poller.New(n.engine, poller.Config{Link: caps}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	n.driver = driver.NewRegistrar(n.engine.Driver(), n.poller)
	n.site = n.newSite()
	n.end = sync.OnceValue(n.shut)
	return n, nil
}

// ID is the NIC's id.
func (n *NIC) ID() NICID { return n.id }

// Addr is where the NIC listens, as a [Node] of another one's configuration would name it.
func (n *NIC) Addr() string { return n.addr }

// AddNode tells the NIC of another one, and looks up the host name of node.Addr if it has one. It
// fails with [ErrBadArgument] if the node is malformed or has the NIC's own id, and with [ErrClosed]
// when the NIC is closed.
func (n *NIC) AddNode(node Node) error {
	if err := n.alive(); err != nil {
		return err
	}
	addr, err := node.address() // before Do, since the engine does not wait for a name server
	if err != nil {
		return err
	}
	n.poller.Do(func(clock.Time) { err = n.addNode(node, addr) })
	return err
}

// addNode tells the engine of a node at an address.
func (n *NIC) addNode(node Node, addr netip.AddrPort) (err error) {
	if node.Name != "" {
		if err := registry.CheckName(node.Name); err != nil {
			return argument(fmt.Errorf("weft: node %s: %w", node.Addr, err))
		}
	}
	if node.ID == n.id {
		return argument(fmt.Errorf("weft: node %s has this NIC's own id, %v", node.Addr, n.id))
	}
	var key trust.PublicKey
	if node.Key != "" {
		if key, err = node.key(); err != nil {
			return err
		}
		node.ID = cmp.Or(node.ID, NICID(key.ID()))
	}
	switch err := n.engine.AddNode(uint64(node.ID), addr); {
	case errors.Is(err, nic.ErrClosed): // meanwhile
		return ErrClosed
	case err != nil:
		return err
	}
	if node.Key != "" {
		if err := n.engine.Bind(uint64(node.ID), key); err != nil {
			return argument(fmt.Errorf("weft: node %s: %w", node.Addr, err))
		}
	}
	if node.Name == "" {
		return nil
	}
	n.engine.Programs().NameNode(node.Name, uint64(node.ID), addr)
	return nil
}

// RemoveNode says that there is no longer a NIC there: with the node's id, or at its address if the id is 0. One that is down is
// forgotten with its names, and what waits for it fails. One that is up stays until it is silent for Config.UnreachableAfter. A NIC that
// is not known is no error.
func (n *NIC) RemoveNode(node Node) error {
	if err := n.alive(); err != nil {
		return err
	}
	var addr netip.AddrPort
	if node.ID == 0 {
		var err error
		if addr, err = node.address(); err != nil {
			return err
		}
	}
	n.poller.Do(func(clock.Time) { n.engine.RemoveNode(uint64(node.ID), addr) })
	return nil
}

// NodeState is a NIC that this one knows, and whether they have a session.
type NodeState struct {
	Node
	Up bool
}

// Nodes lists the NICs that this one knows, in the order in which it got to know them.
func (n *NIC) Nodes() (l []NodeState, err error) {
	if err := n.alive(); err != nil {
		return nil, err
	}
	n.poller.Do(func(clock.Time) {
		for _, info := range n.engine.Nodes() {
			l = append(l, NodeState{Node{ID: NICID(info.ID), Addr: addrString(info.Addr)}, info.Up})
		}
	})
	return l, nil
}

// Counters returns what the NIC has counted since it was opened, by the names that `weft stat` has. Those that end in _now are levels.
func (n *NIC) Counters() map[string]uint64 {
	m := make(map[string]uint64)
	n.poller.Do(func(clock.Time) {
		for i, name := range vni.Names() {
			m[name] = n.engine.Count(vni.Counter(i))
		}
	})
	return m
}

// Attach gives this program one more process on the NIC. It returns when the process is in all the groups; if it cannot be
// in one of them, it is closed again, with a [GroupError]. [ErrNameTaken] is as of [Open].
func (n *NIC) Attach(ctx context.Context, name Name, groups ...Membership) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == AnyProcess {
		return nil, argument(errors.New("weft: the process has no name; expected one such as app/0"))
	}
	vn, err := name.vni()
	if err != nil {
		return nil, argument(fmt.Errorf("weft: %w", err))
	}
	p, err := n.attach(ctx, name, vn)
	if err != nil {
		return nil, err
	}
	return p.joined(ctx, groups)
}

// attach makes a process that is in no group yet. Close waits for it, so that it finds the process, too.
func (n *NIC) attach(ctx context.Context, name Name, vn vni.Name) (*Process, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, refusal(name, ErrClosed)
	}
	n.attaching.Add(1)
	n.mu.Unlock()
	defer n.attaching.Done()
	seg, err := newSegment()
	if err != nil {
		return nil, err
	}
	slot, gen, err := n.register(ctx, vn, seg)
	if err != nil {
		return nil, refusal(name, err)
	}
	w := &embeddedWaiter{n: n}
	p := &Process{time: realTime{}, name: name, nic: n, addr: Address{n.id, slot, gen}, askProgram: n.askProgram}
	p.share = func(id uint32, size int) ([]byte, func() error, error) { return n.shareSegment(p, id, size) }
	p.leave = sync.OnceValue(func() error { return n.forget(p, slot) })
	way, err := n.newStraight(slot, gen)
	if err != nil {
		return nil, errors.Join(err, p.leave())
	}
	half, err := proc.New(seg, w, &embeddedMemory{n: n, slot: slot, gen: gen}, proc.Options{Began: n.poller.Began, Names: n.names, Straight: way, NewGate: p.time.NewGate})
	if err != nil {
		return nil, errors.Join(err, p.leave())
	}
	p.init(half)
	n.mu.Lock()
	n.procs[p] = struct{}{}
	n.mu.Unlock()
	return p, nil
}

// names are those of the processes that live.
func (n *NIC) names(context.Context) (l []vni.Name, err error) {
	if err := n.alive(); err != nil {
		return nil, err
	}
	n.poller.Do(func(clock.Time) { l = liveNames(n.engine.Names()) })
	return l, nil
}

// newSegment makes a segment in ordinary memory: both halves are in this address space, so that messages go to and from
// the caller's own slices.
func newSegment() (*vni.Segment, error) {
	g := vni.DefaultGeometry(true)
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(words(rw), words(ro), g)
	if err != nil {
		return nil, err
	}
	seg.EnableDirect()
	return seg, nil
}

// register has the engine serve a process.
func (n *NIC) register(ctx context.Context, name vni.Name, seg *vni.Segment) (slot uint16, gen uint32, err error) {
	slot, err = n.driver.Take(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	gen, err = n.driver.New(ctx, slot, os.Getpid(), name, driver.Entry{VNI: seg})
	if err != nil {
		n.driver.GiveBack(slot)
	}
	return slot, gen, err
}

// forget lets a process of the NIC go.
func (n *NIC) forget(p *Process, slot uint16) error {
	n.mu.Lock()
	delete(n.procs, p)
	err := n.leaveSegments(p)
	n.mu.Unlock()
	err = errors.Join(err, n.driver.Delete(slot))
	n.driver.GiveBack(slot)
	return err
}

func (n *NIC) alive() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	return nil
}

// Close ends the NIC: its processes are closed, its peers told. It returns when nothing of it runs any more, also where another call ends it.
func (n *NIC) Close() error { return n.end() }

func (n *NIC) shut() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.attaching.Wait()
	n.mu.Lock()
	procs := slices.Collect(maps.Keys(n.procs))
	n.mu.Unlock()
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.close())
	}
	n.linger()
	n.poller.Do(n.engine.Close)
	if n.resident != nil {
		errs = append(errs, n.resident.Close())
	}
	errs = append(errs, n.poller.Close())
	n.poller.Do(func(clock.Time) { errs = append(errs, n.link.Close()) }) // Counters looks at it whenever it is called
	return errors.Join(errs...)
}
