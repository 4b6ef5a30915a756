package gossip

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/weftnet/weft/internal/limits"
)

// member is a live member according to memberlist.
type member struct {
	claim
	gossip netip.AddrPort
}

// members holds the news from memberlist in our own memory: memberlist's list may only be read
// under its lock, which it does not export. It calls the methods below under that lock, so they
// only take notes.
type members struct {
	changed chan struct{} // has a token when something has changed

	mu    sync.Mutex
	alive map[string]member            // by the member's name
	lost  map[netip.AddrPort]time.Time // addresses of members that fell silent, and since when
	meta  []byte                       // this member's own
}

func newMembers() *members {
	return &members{
		changed: make(chan struct{}, 1), alive: make(map[string]member), lost: make(map[netip.AddrPort]time.Time),
	}
}

// wake signals a change.
func (m *members) wake() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// NotifyAlive refuses a member whose metadata is malformed.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	_, err := parseClaim(n.Meta)
	return err
}

// NotifyJoin and NotifyUpdate note the current state of a member.
func (m *members) NotifyJoin(n *memberlist.Node) {
	c, err := parseClaim(n.Meta)
	if err != nil { // NotifyAlive has refused it
		return
	}
	at := gossipAddr(n)
	m.mu.Lock()
	m.alive[n.Name] = member{c, at}
	delete(m.lost, at)
	m.mu.Unlock()
	m.wake()
}

func (m *members) NotifyUpdate(n *memberlist.Node) { m.NotifyJoin(n) }

// NotifyLeave notes that a member has left, or has been silent for too long. Its address is
// remembered. If the network failed, this NIC has to call there, since perhaps none of the seeds
// is on the other side.
func (m *members) NotifyLeave(n *memberlist.Node) {
	m.mu.Lock()
	delete(m.alive, n.Name)
	if n.State != memberlist.StateLeft {
		m.remember(gossipAddr(n), time.Now())
	}
	m.mu.Unlock()
	m.wake()
}

// remember adds an address to lost. If there are too many, it replaces the oldest.
func (m *members) remember(at netip.AddrPort, now time.Time) {
	if _, known := m.lost[at]; !known && len(m.lost) >= limits.GossipLost {
		oldest, since := netip.AddrPort{}, now
		for a, t := range m.lost {
			if t.Before(since) {
				oldest, since = a, t
			}
		}
		delete(m.lost, oldest)
	}
	m.lost[at] = now
}

func gossipAddr(n *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port)
}

// claims returns the claims of all members, including this one.
func (m *members) claims() []claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := make([]claim, 0, len(m.alive))
	for _, a := range m.alive {
		l = append(l, a.claim)
	}
	return l
}

// absent returns the addresses that are not members now but may be: seeds, and lost members.
func (m *members) absent(seeds []netip.AddrPort, now time.Time) (seedsAbsent, lost []netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here := make(map[netip.AddrPort]bool)
	for _, a := range m.alive {
		here[a.gossip] = true
	}
	for _, s := range seeds {
		if !here[s] {
			seedsAbsent = append(seedsAbsent, s)
		}
	}
	for a, since := range m.lost {
		if now.Sub(since) > limits.GossipForget {
			delete(m.lost, a)
		} else if !here[a] {
			lost = append(lost, a)
		}
	}
	return seedsAbsent, lost
}

// alone reports whether there is no other member.
func (m *members) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.alive) < 2
}

func (m *members) setMeta(c claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meta = c.append(nil)
}

// NodeMeta returns the data that memberlist tells others of this member. The other methods of
// memberlist's Delegate carry user data, and there is none.
func (m *members) NodeMeta(int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meta
}

func (m *members) NotifyMsg([]byte)                {}
func (m *members) GetBroadcasts(int, int) [][]byte { return nil }
func (m *members) LocalState(bool) []byte          { return nil }
func (m *members) MergeRemoteState([]byte, bool)   {}
