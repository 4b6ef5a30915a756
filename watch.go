package weft

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// EventKind is the kind of an [Event].
type EventKind uint32

// The kinds of events.
const (
	// EventMissed (0): a Watcher of given peers missed events.
	EventMissed EventKind = 0
	// EventUnreachable (1): a NIC is silent.
	EventUnreachable EventKind = EventKind(vni.EventUnreachable)
	// EventRestarted (2): a NIC has restarted.
	EventRestarted EventKind = EventKind(vni.EventRestarted)
	// EventProcessGone (3): a process has ended.
	EventProcessGone EventKind = EventKind(vni.EventProcessGone)
	// EventNameLost (4): another process now has this process's name.
	EventNameLost EventKind = EventKind(vni.EventNameLost)
	// EventClosed (5): a NIC was closed; see Process.Watch.
	EventClosed EventKind = EventKind(vni.EventClosed)
)

// Event reports that a NIC has ended or is silent, that a process has ended, or that this process
// has lost its name. A process gets events about the NICs and processes with which it has exchanged
// messages. If an operation fails for the same reason, that operation also returns an error.
type Event struct {
	Kind    EventKind
	Name    Name    // the name of the process that ended; AnyProcess if the name is not known
	Addr    Address // the address of the process; for a NIC, Slot and Generation are 0
	InDoubt uint64  // an upper bound on the number of lost messages whose sends had succeeded
	Missed  uint64  // the number of earlier events that the Watcher did not fetch in time

	text string
}

// String returns a short text that describes the event.
func (e Event) String() string { return e.text }

// Watcher returns each event of a process once. A process may have several Watchers, and each
// Watcher gets every event. So a library and its application can both watch.
type Watcher struct {
	w     *proc.Watcher
	peers []Address
}

// Watch returns a Watcher of the events that happen after the call. If peers are given, the Watcher
// returns only events about these processes and their NICs. Close the Watcher when it is no longer
// needed.
//
// A process gets events about a peer only after it has sent a message to the peer or received a
// message from the peer. Messages that the peer sent before its end can still be received after the
// event. A NIC detects that another NIC is silent only while an operation between the two NICs is
// in flight. A receive is such an operation.
//
// If a NIC is closed, a process gets an EventProcessGone for each process of that NIC that it
// knows. An EventClosed for the NIC follows, but only if the NIC has sent something to the
// process. Wait for EventProcessGone to learn that a peer has ended.
//
// If a session with a NIC ends and a new session begins, the process gets the event before the
// first message of the new session. After the process has received a message of the new session,
// Next returns the event without waiting.
func (p *Process) Watch(peers ...Address) *Watcher {
	return &Watcher{w: p.p.Watch(), peers: slices.Clone(peers)}
}

// Next waits for the next event. If an event is queued, Next returns the event even if ctx is done.
// Next fails with [ErrClosed] after the Watcher or its process is closed.
//
// A process keeps its last 64 events. A Watcher that falls further behind misses events. The field
// Missed of its next event is the number of missed events. If a Watcher of given peers has missed
// events, and the next queued event is about another peer, Next returns an event of the kind
// [EventMissed]. After a Watcher has missed events, the caller must find out by other means which
// peers are alive.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	missed := uint64(0)
	for {
		e, m, err := w.w.Next(ctx)
		if missed += m; err != nil {
			return Event{Missed: missed}, opError(err)
		}
		if w.wants(&e) {
			return eventOf(&e, missed), nil
		}
		if missed > 0 {
			return Event{Kind: EventMissed, Missed: missed, text: fmt.Sprintf("%d events missed", missed)}, nil
		}
	}
}

// All returns an iterator over the events as they happen, each with a nil error. The iteration ends
// after one error: ctx's error or [ErrClosed].
func (w *Watcher) All(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := w.Next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the Watcher. A waiting Next and every later Next fail with [ErrClosed].
func (w *Watcher) Close() { w.w.Close() }

// wants reports whether an event concerns one of the given peers. Without given peers it returns
// true.
func (w *Watcher) wants(e *vni.Event) bool {
	if len(w.peers) == 0 {
		return true
	}
	for _, a := range w.peers {
		if uint64(a.NIC) == e.NIC && (e.Slot == 0 && e.Gen == 0 || a.Slot == e.Slot && a.Generation == e.Gen) {
			return true
		}
	}
	return false
}

func eventOf(e *vni.Event, missed uint64) Event {
	return Event{
		Kind: EventKind(e.Kind), Name: nameOf(e.Name), Addr: Address{NICID(e.NIC), e.Slot, e.Gen},
		InDoubt: e.Count, Missed: missed, text: e.String(),
	}
}
