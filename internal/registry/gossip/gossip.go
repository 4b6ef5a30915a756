// Package gossip is a registry that needs no list of nodes: the NICs of a fabric tell one another
// which NICs exist (decision 15). Membership, failure detection and encryption come from
// memberlist, which runs SWIM over UDP and TCP:
//
//	        ┌── memberlist ──┐  joins, leaves   ┌─ members ─┐  claims  ┌─ judge ─┐  list
//	UDP ◄──►│ probes, gossip ├─────────────────►│ which NIC ├─────────►│ holders ├───────► Watch
//	TCP ◄──►│ whole states   │                  │ says what │          │ of ids  │
//	        └──────▲───▲─────┘                  └───────────┘          └─────────┘
//	 own claim ────┘   └──── Join: seeds, and members that were lost, until they are there
//
// Each member tells its NIC's id, incarnation and address. One address of another member, a seed,
// is enough to find all. The registry has its own goroutines, timers and sockets, far from any
// engine.
package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// LeastFailureTimeout is the shortest Config.FailureTimeout: below it, a busy host would seem dead.
const LeastFailureTimeout = time.Second

// Config configures a Registry. ID, Incarnation, Addr, Listen and Keys must be set.
type Config struct {
	ID registry.NICID
	// Incarnation is larger in every life of the NIC. The older of two lives keeps a disputed id.
	Incarnation uint64
	// Addr is the address of the NIC's link. If its IP is unspecified, the IP of the gossip is
	// used.
	Addr netip.AddrPort

	Listen netip.AddrPort // UDP and TCP; port 0 is any free port; the IP may be unspecified
	// Seeds are other members, possibly including this one. If it is empty, others must call.
	Seeds []netip.AddrPort
	Keys  []Key // the first seals, each opens

	// FailureTimeout is the silence after which a NIC is removed from the list; 0 =
	// limits.FailureTimeout.
	FailureTimeout time.Duration
	Log            *slog.Logger // nil = none

	// wrap lets tests cut the network.
	wrap func(memberlist.NodeAwareTransport) memberlist.NodeAwareTransport
}

// Registry knows the NICs that gossip. It is safe for concurrent use. Close ends it.
type Registry struct {
	config  Config
	log     *slog.Logger
	members *members
	list    *memberlist.Memberlist
	ring    *memberlist.Keyring // safe for concurrent use
	at      netip.AddrPort      // where others reach the gossip

	stop    context.CancelFunc
	running sync.WaitGroup
	joined  chan struct{} // closed at the first answer, or after the first calls
	closing sync.Once

	self     self             // owned by the judging goroutine, like the next two
	holders  holders          // which NIC has which id
	disputes map[dispute]bool // those that have been logged

	heard logWriter // memberlist's log

	mu      sync.Mutex
	failed  map[netip.AddrPort]string // the error of the last call of each seed; empty: it answered
	nodes   []registry.Node
	changed chan struct{} // closed when nodes changes
}

// New starts to gossip. Seeds that do not answer are no error: they are called until they do.
func New(c Config) (*Registry, error) {
	if c.FailureTimeout == 0 {
		c.FailureTimeout = limits.FailureTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.FailureTimeout < LeastFailureTimeout {
		return nil, fmt.Errorf("gossip: a failure timeout of %v; expected at least %v",
			c.FailureTimeout, LeastFailureTimeout)
	}
	if len(c.Keys) == 0 {
		return nil, errors.New("gossip: Config.Keys is empty; expected one key or more")
	}
	advertised, err := advertisedIP(c.Listen.Addr(), c.Seeds)
	if err != nil {
		return nil, err
	}
	if c.Addr.Addr().IsUnspecified() {
		c.Addr = netip.AddrPortFrom(advertised, c.Addr.Port())
	}
	r := &Registry{
		config: c, log: c.Log, members: newMembers(), joined: make(chan struct{}), changed: make(chan struct{}),
		self:    self{claim: claim{id: c.ID, incarnation: c.Incarnation, addr: c.Addr}, grace: c.FailureTimeout},
		holders: make(holders), disputes: make(map[dispute]bool),
	}
	if err := r.self.check(); err != nil {
		return nil, err
	}
	r.members.setMeta(r.self.claim)
	if err := r.start(advertised); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.running.Go(func() { r.call(ctx) })
	r.running.Go(func() { r.judge(ctx) })
	return r, nil
}

// start opens the sockets and makes the member. The member's name contains its address. If two
// members had one name, memberlist would believe the second one's statements about the first, for
// example that it leaves.
func (r *Registry) start(advertised netip.Addr) error {
	r.heard.to = r.log
	logger := log.New(&r.heard, "", 0)
	c := r.config.timing()
	t, err := listen(&memberlist.NetTransportConfig{BindAddrs: []string{r.config.Listen.Addr().String()},
		BindPort: int(r.config.Listen.Port()), Logger: logger})
	if err != nil {
		return fmt.Errorf("gossip: %v: %w", r.config.Listen, err)
	}
	r.at = netip.AddrPortFrom(advertised, uint16(t.GetAutoBindPort()))
	c.Name = fmt.Sprintf("%v@%v", r.config.ID, r.at)
	c.Transport, c.Logger = t, logger
	if r.config.wrap != nil {
		c.Transport = r.config.wrap(t)
	}
	c.AdvertiseAddr, c.AdvertisePort = r.at.Addr().String(), int(r.at.Port())
	if r.ring, err = keyring(r.config.Keys); err != nil {
		return errors.Join(fmt.Errorf("gossip: %w", err), t.Shutdown())
	}
	c.Keyring = r.ring
	c.Delegate, c.Events, c.Alive = r.members, r.members, r.members
	if r.list, err = memberlist.Create(c); err != nil {
		return errors.Join(fmt.Errorf("gossip: %w", err), t.Shutdown())
	}
	return nil
}

// listen opens the UDP and the TCP port of one number. If any port will do, the first free TCP
// port may be in use for UDP; then listen tries the next one.
func listen(c *memberlist.NetTransportConfig) (t *memberlist.NetTransport, err error) {
	for range 10 {
		if t, err = memberlist.NewNetTransport(c); err == nil || c.BindPort != 0 {
			break
		}
	}
	return t, err
}

// probesInTimeout is the time until all members know that a member is gone, in probe intervals,
// for a fabric of up to a thousand. It is at most three until it is some member's turn to probe
// it, one for the probe, and as much again on a host with earlier failures. Nine (three for each
// power of ten) are for its objection, and two for the spread of the news.
const probesInTimeout = 16

// timing converts the failure timeout to memberlist's settings.
func (c *Config) timing() *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.ProbeInterval = c.FailureTimeout / probesInTimeout
	m.ProbeTimeout = m.ProbeInterval / 2
	m.AwarenessMaxMultiplier = 2
	m.SuspicionMult = 3
	// With few suspicions memberlist would wait longer; the timeout is a promise here.
	m.SuspicionMaxTimeoutMult = 1
	m.GossipInterval = min(m.ProbeInterval, 100*time.Millisecond)
	m.GossipToTheDeadTime = 3 * c.FailureTimeout
	m.TCPTimeout = limits.GossipCall
	m.EnableCompression = false // small sealed data gains nothing
	return m
}

// advertisedIP returns the IP at which others reach a socket that listens at ip. For an
// unspecified ip it is this host's address on the way to the first seed, or else the first that
// is not only for this host.
func advertisedIP(ip netip.Addr, seeds []netip.AddrPort) (netip.Addr, error) {
	if !ip.IsUnspecified() {
		return ip, nil
	}
	for _, s := range seeds {
		c, err := net.Dial("udp", s.String()) // sends nothing
		if err != nil {
			continue
		}
		from := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		_ = c.Close()
		return from, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ip, fmt.Errorf("gossip: %w", err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			return p.Addr().Unmap(), nil
		}
	}
	return ip, errors.New("gossip: this host has no address that others could reach; name one to listen at")
}

// Addr returns the address at which other members reach this one: a seed for them.
func (r *Registry) Addr() netip.AddrPort { return r.at }

// Nodes returns the current list, including this NIC. It is empty as long as another NIC has this
// one's id.
func (r *Registry) Nodes() []registry.Node {
	l, _ := r.now()
	return l
}

func (r *Registry) now() ([]registry.Node, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.nodes), r.changed
}

// Watch calls changed with the current list, and after each change, until ctx is done.
func (r *Registry) Watch(ctx context.Context, changed func([]registry.Node)) error {
	for {
		l, next := r.now()
		changed(l)
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// publish makes l the list.
func (r *Registry) publish(l []registry.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(l, r.nodes) {
		return
	}
	r.nodes = l
	close(r.changed)
	r.changed = make(chan struct{})
}

// leaveWithin is how long an ending member waits until its news has been sent.
const leaveWithin = 300 * time.Millisecond

// Close leaves the others, which then need not wait for the failure timeout, and frees all
// resources. It may be called twice.
func (r *Registry) Close() (err error) {
	r.closing.Do(func() {
		r.stop()
		if lerr := r.list.Leave(leaveWithin); lerr != nil && !r.members.alone() {
			r.log.Debug("gossip: perhaps no other has heard that this NIC leaves", "error", lerr)
		}
		err = r.list.Shutdown()
		r.running.Wait()
	})
	return err
}
