package ctl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// KeeperFD is the descriptor by which a keeper reaches its daemon: a socket of packets, one JSON
// object in each, strictly decoded. If the connection ends, the other side has ended.
//
//	daemon                                          keeper
//	  {"await":{"name":NAME,"socket":PATH,…}}     ──► if the keeper starts before its reservation
//	  {"begin":{"reserve":{…},"socket":PATH,…}}   ──►
//	                                              ◄─ {"ready":true} or {"refusals":[…]}
//	                                              ◄─ {"started":[PID,…]}  at the launcher's start
//	  {"report":true}                             ──►
//	                                              ◄─ {"ranks":[…]}, …, {"ranks":[…],"report":true}
//	  {"kill":{"grace_ns":1000000000}}            ──► the keeper ends its ranks, and then itself
//	  {"stops":true}                              ──► daemon and keeper end in order
const KeeperFD = 3

// ToKeeper is a packet of a daemon to its keeper. One of the fields is set.
type ToKeeper struct {
	Await  *KeeperAwait `json:"await,omitempty"`
	Begin  *KeeperBegin `json:"begin,omitempty"`
	Kill   *KeeperKill  `json:"kill,omitempty"`
	Report bool         `json:"report,omitempty"`
	Stops  bool         `json:"stops,omitempty"` // the daemon ends when its keepers have ended
}

// KeeperAwait is the first packet to a keeper that starts early. Before the reservation comes,
// the keeper may only attach.
type KeeperAwait struct {
	Name   string   `json:"name"` // the name under which the keeper attaches
	Socket string   `json:"socket"`
	Cgroup []string `json:"cgroup,omitempty"`
}

// KeeperBegin is the first packet to a keeper, or the one after KeeperAwait.
type KeeperBegin struct {
	Reserve *Reserve `json:"reserve"`
	Socket  string   `json:"socket"` // of the daemon, for the keeper and its ranks
	User    string   `json:"user"`   // the user of the keeper

	// Launcher is the IP address of the launcher's NIC, as this host's NIC reaches it. It is
	// empty if that NIC is this one, or has no IP address.
	Launcher string `json:"launcher,omitempty"`

	// Cgroup holds the directories of the job's control group, for cgroup.Open. The keeper is in
	// the part of the group that is for the keeper.
	Cgroup []string `json:"cgroup,omitempty"`

	// NoCgroup says why the daemon could not make a control group. It is empty if the daemon has
	// made one.
	NoCgroup string `json:"no_cgroup,omitempty"`
	Root     bool   `json:"root,omitempty"` // the daemon is root
}

// KeeperKill asks a keeper to end its ranks.
type KeeperKill struct {
	Grace int64 `json:"grace_ns"` // between SIGTERM and SIGKILL
	// By is the asking user, as text for people: "user alice on h1 (NIC 0:0:0:0:0:0:0:1)".
	By string `json:"by,omitempty"`
}

// FromKeeper is a packet of a keeper to its daemon. One of the fields is set.
type FromKeeper struct {
	Ready    bool       `json:"ready,omitempty"`
	Refusals []Refusal  `json:"refusals,omitempty"`
	Started  []int      `json:"started,omitempty"` // pids of the ranks, in the order of the ranks
	Ending   bool       `json:"ending,omitempty"`  // the ranks are being ended
	Ranks    []RankInfo `json:"ranks,omitempty"`   // part of the answer to Report
	Report   bool       `json:"report,omitempty"`  // the last part
}

// keeperSendWithin bounds how long the other side may leave packets unread.
const keeperSendWithin = 2 * time.Second

// KeeperLink is one end of the connection between a daemon and a keeper. Tell and Answer are safe
// for concurrent use; Told and Answered are for one goroutine.
type KeeperLink struct {
	c    *net.UnixConn
	mu   sync.Mutex
	p    *packets
	past bool // Begin has come
	soon bool // Await has come

	within time.Duration // keeperSendWithin
}

// NewKeeperLink makes a link of one end of a pair of packet sockets, and closes f.
func NewKeeperLink(f *os.File) (*KeeperLink, error) {
	c, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		if c != nil {
			_ = c.Close()
		}
		return nil, fmt.Errorf("link of a keeper: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("link of a keeper: %T is no unix socket", c), c.Close())
	}
	return &KeeperLink{c: u, p: newPackets(u, MaxMessage, 0), within: keeperSendWithin}, nil
}

// OpenKeeperLink opens the keeper's end, KeeperFD. It fails in a process that no daemon has
// started.
func OpenKeeperLink() (*KeeperLink, error) {
	l, err := NewKeeperLink(os.NewFile(KeeperFD, "keeper link"))
	if err != nil {
		return nil, fmt.Errorf("%w; only a NIC daemon starts keepers", err)
	}
	return l, nil
}

// Close ends the connection.
func (l *KeeperLink) Close() error { return l.c.Close() }

// Tell sends a packet to the keeper.
func (l *KeeperLink) Tell(m *ToKeeper) error { return l.send(m) }

// Answer sends a packet to the daemon.
func (l *KeeperLink) Answer(m *FromKeeper) error { return l.send(m) }

// EachReport splits a report into packets, and sends them.
func EachReport(ranks []RankInfo, send func(*FromKeeper) error) error {
	for from := 0; ; {
		page, next := Page(ranks, from)
		if err := send(&FromKeeper{Ranks: page, Report: next == 0}); err != nil || next == 0 {
			return err
		}
		from = next
	}
}

func (l *KeeperLink) send(m any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.c.SetWriteDeadline(time.Now().Add(l.within)); err != nil {
		return err
	}
	return l.p.send(m)
}

// Told receives a packet of the daemon. It returns io.EOF if the daemon is gone.
func (l *KeeperLink) Told() (*ToKeeper, error) {
	var m ToKeeper
	if err := l.receive(&m); err != nil {
		return nil, err
	}
	if err := m.check(l.past, l.soon); err != nil {
		return nil, err
	}
	l.past, l.soon = m.Begin != nil || l.past, true
	return &m, nil
}

// Answered receives a packet of the keeper. It returns io.EOF if the keeper is gone.
func (l *KeeperLink) Answered() (*FromKeeper, error) {
	var m FromKeeper
	if err := l.receive(&m); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return &m, nil
}

func (l *KeeperLink) receive(into any) error {
	b, _, err := l.p.receive() // the kernel discards descriptors
	switch {
	case errors.Is(err, net.ErrClosed):
		return io.EOF
	case err != nil:
		return err
	}
	return decode(b, into)
}

// check reports what is wrong with a packet of a daemon. past means that Begin has come, soon
// that any packet has.
func (m *ToKeeper) check(past, soon bool) error {
	switch {
	case m.Await != nil && m.Begin == nil && !soon:
		return nil
	case past == (m.Begin != nil) || m.Await != nil:
		return fmt.Errorf("%w: the first packet to a keeper has \"begin\", and no other, "+
			"but for an \"await\" before it",
			ErrBadRequest)
	case m.Begin != nil && m.Begin.Reserve == nil:
		return fmt.Errorf("%w: \"begin\" without \"reserve\"", ErrBadRequest)
	case m.Begin != nil:
		return m.Begin.Reserve.check()
	}
	return nil
}

// check reports what is wrong with a packet of a keeper. The keeper runs as a user, and is
// trusted no more than that user's processes.
func (m *FromKeeper) check() error {
	switch {
	case len(m.Refusals) > limits.JobRefusals:
		return fmt.Errorf("%w: %d refusals; expected at most %d", ErrBadRequest, len(m.Refusals), limits.JobRefusals)
	case len(m.Started) > limits.RanksPerHost || len(m.Ranks) > limits.RanksPerHost:
		return fmt.Errorf("%w: more than %d ranks", ErrBadRequest, limits.RanksPerHost)
	}
	for _, r := range m.Refusals {
		if len(r.What)+len(r.Text)+len(r.Cure) > limits.JobRefusalBytes {
			return fmt.Errorf("%w: a refusal of more than %d bytes", ErrBadRequest, limits.JobRefusalBytes)
		}
	}
	for _, r := range m.Ranks {
		if len(r.State)+len(r.Cause) > limits.RankStateBytes || r.Standing != nil {
			return fmt.Errorf("%w: a rank with more than %d bytes of state, or with what only the NIC knows",
				ErrBadRequest, limits.RankStateBytes)
		}
	}
	return nil
}
