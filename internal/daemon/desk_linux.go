package daemon

import (
	"sync"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
)

// desk holds requests of other NICs until one of the control process's servers takes them. Each
// NIC has its own queue, and the queues take turns. A NIC that asks much, or does not take its
// answers, delays only itself:
//
//	at most controlServersPerPeer servers answer one NIC
//	at most limits.ControlWaiting requests of one NIC wait, limits.ControlWaitingAll of all NICs
//	a request that has waited for askWithin is dropped: its asker has given up
type desk struct {
	mu      sync.Mutex
	news    sync.Cond
	queues  map[uint64]*peerQueue // by NIC, for NICs with waiting or served requests
	turns   []uint64              // NICs with a queue; the first was served longest ago
	waiting int                   // requests in all queues
	closed  bool
}

// peerQueue holds the requests of one NIC.
type peerQueue struct {
	requests []asked // oldest first
	serving  int     // servers that answer it
}

// asked is a request that waits.
type asked struct {
	m    proc.Message
	body []byte
	bad  error // why it is refused, whatever its content; nil: it is not
	came time.Time
}

func newDesk() *desk {
	k := &desk{queues: make(map[uint64]*peerQueue)}
	k.news.L = &k.mu
	return k
}

// put enqueues a request. It returns false if its NIC, or all together, have too many waiting.
func (k *desk) put(a asked) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[a.m.NIC]
	if k.closed || q != nil && len(q.requests) >= limits.ControlWaiting || k.waiting >= limits.ControlWaitingAll {
		return false
	}
	if q == nil {
		q = new(peerQueue)
		k.queues[a.m.NIC] = q
		k.turns = append(k.turns, a.m.NIC)
	}
	q.requests = append(q.requests, a)
	k.waiting++
	k.news.Signal()
	return true
}

// take waits for a request that may be served, and returns it; ok is false at the end. done must
// follow.
func (k *desk) take() (a asked, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.closed {
		for i, nic := range k.turns {
			q := k.queues[nic]
			if len(q.requests) == 0 || q.serving >= controlServersPerPeer {
				continue
			}
			a, q.requests = q.requests[0], q.requests[1:]
			q.serving++
			k.waiting--
			k.turns = append(append(k.turns[:i:i], k.turns[i+1:]...), nic)
			return a, true
		}
		k.news.Wait()
	}
	return asked{}, false
}

// done notes that a request of a NIC was served.
func (k *desk) done(nic uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.queues[nic]
	q.serving--
	if q.serving == 0 && len(q.requests) == 0 {
		delete(k.queues, nic)
		for i := range k.turns {
			if k.turns[i] == nic {
				k.turns = append(k.turns[:i], k.turns[i+1:]...)
				break
			}
		}
	}
	k.news.Signal()
}

// close ends all calls of take.
func (k *desk) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.news.Broadcast()
}
