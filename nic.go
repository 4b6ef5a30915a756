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

// NIC is a software network interface inside this program. [OpenNIC] makes a NIC, and [NIC.Attach]
// attaches processes to it. A process of a NIC is a name with its own messages, not a process of
// the operating system. A goroutine that waits for a message polls the NIC. While no goroutine
// waits, a goroutine of the NIC polls the NIC.
type NIC struct {
	id     NICID
	addr   string
	engine *nic.Engine
	poller *poller.Poller
	link   link.Driver
	driver *driver.Registrar // registers processes
	site   *deploy.Site      // loads programs
	log    *slog.Logger      // nil: no log

	unfollow func()             // ends the work that keeps the link attached
	resident *resident.Programs // programs in the link's driver; nil: the link cannot run any

	mu       sync.Mutex
	procs    map[*Process]struct{}
	segments map[uint32]*sharedSegment // by number
	closed   bool

	// attaching counts the calls of Attach that began before Close and have not added their process
	// to procs yet. Attach increments it under mu.
	attaching sync.WaitGroup

	end func() error // runs shut once
}

// Open opens a NIC inside this program and attaches one process to it. [Process.Close] also closes
// the NIC. If some of the nodes in cfg.Nodes do not answer, Open waits for their answers for at
// most half a second.
//
// Open fails with [ErrNameTaken] if another process of the fabric has the name, and with
// [ErrNameLost] if that process is a newer process of this process's rank; see [Process.World].
// It fails with [ErrBadArgument] if the configuration or a variable of the environment is
// invalid, with [ErrNoLauncher] if cfg.Name is empty and no launcher started the program, and
// with a [GroupError] if the process cannot join a group. Other errors come from the system, for
// example if an address is in use.
//
// If cfg.Name is empty, the launcher has a PMI-1 server, and cfg.Nodes is empty, Open needs no
// further configuration: the NICs of all ranks learn each other's addresses from this server.
// Unless the configuration or $WEFT_FABRIC_FILE names a fabric key, or Plain is set, rank 0 draws
// a key for this job, and the other ranks get it from the server. If cfg.Link is empty and the
// ranks are on several hosts, the NIC listens at the address of its host. Open takes over the
// connection to the server, so an MPI library in the same program cannot use it.
//
// If a program is killed and restarted, Open may fail with [ErrNameTaken] until the fabric notices
// that the earlier NIC is gone. The fabric notices within 10 s, or within twice
// [Config.UnreachableAfter] if that time is longer. If the program restarts with the same
// [Config.ID], Open gets the name at once.
func Open(ctx context.Context, cfg Config) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	by := launched{name: cfg.Name}
	var err error
	if cfg.Name == AnyProcess {
		if by, err = fromLauncher("Config.Name"); err != nil {
			return nil, err
		}
	}
	n, err := by.open(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	p, err := n.attachAs(ctx, by.name, by.life)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	p.closeNIC, p.place = true, by.place
	return p.joined(ctx, cfg.Groups)
}

// OpenNIC opens a NIC inside this program, without a process. [NIC.Attach] attaches processes to
// it. OpenNIC fails with [ErrBadArgument] if the configuration is invalid. Other errors come from
// the system.
func OpenNIC(ctx context.Context, cfg Config) (*NIC, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d := cfg.UnreachableAfter; d != 0 && (d < limits.LeastUnreachableAfter || d > limits.MostUnreachableAfter) {
		return nil, argument(fmt.Errorf(
			"weft: Config.UnreachableAfter is %v; expected %v to %v, or 0 for the default of %v",
			d, limits.LeastUnreachableAfter, limits.MostUnreachableAfter, limits.UnreachableAfter))
	}
	d, err := cfg.driver()
	if err != nil {
		return nil, err
	}
	return openNIC(cfg, d)
}

// openNIC makes a NIC on a link. It takes ownership of the link, and closes the link if it fails.
func openNIC(cfg Config, d link.Driver) (n *NIC, err error) {
	n = &NIC{id: cfg.ID, addr: addrString(d.Addr()), link: d, log: cfg.Log, procs: make(map[*Process]struct{})}
	ec := nic.Config{
		ID: uint64(cfg.ID), Incarnation: uint64(time.Now().UnixNano()), Secrets: secret.System(rand.Reader),
		Link: d, UnreachableAfter: cfg.UnreachableAfter, Clock: poller.Now,
	}
	if ec.Position, err = cfg.Position.nic(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := cfg.seal(&ec); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	n.id = NICID(ec.ID)
	// One node is enough to join: peers hold the fabric key, or a plain link is private.
	ec.HearsayFromPeers = true
	caps := d.Caps()
	if caps.ReceiveBuffer != nil {
		ec.ReceiveCapacity = uint64(caps.ReceiveBuffer())
	}
	if n.engine, err = nic.New(ec); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for _, addr := range cfg.Link.sw.others(d.Addr()) {
		if err := n.engine.AddNode(0, addr); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	for _, node := range cfg.Nodes {
		addrs, err := node.addresses()
		if err == nil {
			err = n.addNode(node, addrs)
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
	n.unfollow = n.follow(d)
	n.end = sync.OnceValue(n.shut)
	return n, nil
}

// ID returns the id of the NIC.
func (n *NIC) ID() NICID { return n.id }

// Addr returns the address at which the NIC listens. Other NICs can use this address as Node.Addr.
func (n *NIC) Addr() string { return n.addr }

// AddNode tells the NIC about another NIC. If node.Addr has a host name, AddNode looks up the
// host name. AddNode fails with [ErrBadArgument] if the node is malformed, has the NIC's own id,
// or has an address of another kind than the NIC's link. It fails with [ErrClosed] if the NIC is
// closed.
func (n *NIC) AddNode(node Node) error {
	if err := n.alive(); err != nil {
		return err
	}
	addrs, err := node.addresses() // before Do, because the engine must not wait for a name server
	if err != nil {
		return err
	}
	n.poller.Do(func(clock.Time) { err = n.addNode(node, addrs) })
	return err
}

// addNode tells the engine about a node at one of some addresses.
func (n *NIC) addNode(node Node, addrs []netip.AddrPort) (err error) {
	addr := addrs[0] // all are of one kind
	if node.Name != "" {
		if err := registry.CheckName(node.Name); err != nil {
			return argument(fmt.Errorf("weft: node %s: %w", node.Addr, err))
		}
	}
	if has, is := kindOf(n.link.Addr()), kindOf(addr); has != is {
		return argument(fmt.Errorf("weft: node %s: the address is %s, and this NIC has %s; expected %s",
			node.Addr, is.address, has.link, has.address))
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
	switch err := n.engine.AddNode(uint64(node.ID), addr, addrs[1:]...); {
	case errors.Is(err, nic.ErrClosed): // closed after alive returned
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
	n.engine.Programs().NameNode(node.Name, uint64(node.ID), addrs...)
	return nil
}

// RemoveNode tells the NIC that a node is gone. If node.ID is not 0, it identifies the node. If
// node.ID is 0, node.Addr identifies the node. If the node is down, the NIC forgets the node and
// its names, and operations that wait for the node fail. If the node is up, the NIC keeps the node
// until the node has been silent for Config.UnreachableAfter. If the NIC does not know the node,
// RemoveNode does nothing. RemoveNode fails with [ErrBadArgument] if the address is malformed, and
// with [ErrClosed] if the NIC is closed.
func (n *NIC) RemoveNode(node Node) error {
	if err := n.alive(); err != nil {
		return err
	}
	var addr netip.AddrPort
	if node.ID == 0 {
		addrs, err := node.addresses()
		if err != nil {
			return err
		}
		addr = addrs[0]
	}
	n.poller.Do(func(clock.Time) { n.engine.RemoveNode(uint64(node.ID), addr) })
	return nil
}

// NodeState is the state of another NIC, as [NIC.Nodes] returns it. The fields Node.Name and
// Node.Key are empty.
type NodeState struct {
	Node
	Up bool // whether the two NICs have a session
}

// Nodes returns the other NICs that this NIC knows, in the order in which this NIC learned of the
// others. Nodes fails with [ErrClosed] if the NIC is closed.
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

// Counters returns the counters of the NIC since it was opened. The keys are the names that `weft
// stat` prints. A counter whose name ends in _now gives a current value, so it can fall as well as
// rise.
func (n *NIC) Counters() map[string]uint64 {
	m := make(map[string]uint64)
	n.poller.Do(func(clock.Time) {
		for i, name := range vni.Names() {
			m[name] = n.engine.Count(vni.Counter(i))
		}
	})
	return m
}

// Attach attaches another process of this program to the NIC, and waits until the process has
// joined all the given groups. If the process cannot join one of these groups, Attach closes the
// process and fails with a [GroupError]. Attach also fails with one of these errors:
//
//   - [ErrNameTaken]: another process of the fabric has the name; see [Open].
//   - [ErrBadArgument]: the name is malformed.
//   - [ErrFull]: the NIC has no room for another process.
//   - [ErrClosed]: the NIC is closed.
func (n *NIC) Attach(ctx context.Context, name Name, groups ...Membership) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := n.attachAs(ctx, name, vni.Life{})
	if err != nil {
		return nil, err
	}
	return p.joined(ctx, groups)
}

// attachAs checks the name, and makes a process that is in no group yet.
func (n *NIC) attachAs(ctx context.Context, name Name, life vni.Life) (*Process, error) {
	if name == AnyProcess {
		return nil, argument(errors.New("weft: the name of the process is empty; expected one such as app/0"))
	}
	vn, err := name.vni()
	if err != nil {
		return nil, argument(fmt.Errorf("weft: %w", err))
	}
	return n.attach(ctx, name, vn, life)
}

// attach makes a process that is in no group yet. Close waits for attach, and so also closes the
// new process.
func (n *NIC) attach(ctx context.Context, name Name, vn vni.Name, life vni.Life) (*Process, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, refusal(name.String(), ErrClosed)
	}
	n.attaching.Add(1)
	n.mu.Unlock()
	defer n.attaching.Done()
	seg, err := newSegment()
	if err != nil {
		return nil, err
	}
	slot, gen, err := n.register(ctx, vn, seg, life)
	if err != nil {
		return nil, refusal(name.String(), err)
	}
	w := &embeddedWaiter{n: n}
	p := &Process{time: realTime{}, name: name, nic: n, addr: Address{n.id, slot, gen}, askProgram: n.askProgram}
	p.share = func(id uint32, size int) ([]byte, func() error, error) { return n.shareSegment(p, id, size) }
	p.leave = sync.OnceValue(func() error { return n.forget(p, slot) })
	way, err := n.newStraight(slot, gen)
	if err != nil {
		return nil, errors.Join(err, p.leave())
	}
	options := proc.Options{Began: n.poller.Began, Names: n.names, Straight: way, NewGate: p.time.NewGate}
	half, err := proc.New(seg, w, &embeddedMemory{n: n, slot: slot, gen: gen}, options)
	if err != nil {
		return nil, errors.Join(err, p.leave())
	}
	p.init(half)
	n.mu.Lock()
	n.procs[p] = struct{}{}
	n.mu.Unlock()
	return p, nil
}

// names returns the names of the live processes of the fabric.
func (n *NIC) names(context.Context) (l []vni.Name, err error) {
	if err := n.alive(); err != nil {
		return nil, err
	}
	n.poller.Do(func(clock.Time) { l = liveNames(n.engine.Names()) })
	return l, nil
}

// newSegment makes the memory of a virtual network interface. The process and the NIC share one
// address space. So the memory is ordinary memory, and the NIC reads and writes the caller's own
// slices.
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

// register registers a process with the engine, which then serves it.
func (n *NIC) register(
	ctx context.Context, name vni.Name, seg *vni.Segment, life vni.Life,
) (slot uint16, gen uint32, err error) {
	slot, err = n.driver.Take(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	gen, err = n.driver.New(ctx, slot, os.Getpid(), name, driver.Entry{VNI: seg, Life: life})
	if err != nil {
		n.driver.GiveBack(slot)
	}
	return slot, gen, err
}

// forget removes a process that has ended.
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

// Close closes the NIC and its processes, and tells the NIC's peers. First, Close waits for at most
// 2 s for the acknowledgements of the messages that were already sent. When Close returns, no
// goroutine of the NIC runs any more, except perhaps a goroutine that calls [Config.Log]. A second
// Close waits for the first Close and returns the same error.
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
	n.unfollow()
	n.poller.Do(n.engine.Close)
	if n.resident != nil {
		errs = append(errs, n.resident.Close())
	}
	errs = append(errs, n.poller.Close())
	// In Do, because Counters uses the link.
	n.poller.Do(func(clock.Time) { errs = append(errs, n.link.Close()) })
	return errors.Join(errs...)
}
