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
	EventMissed      EventKind = 0                               // 0: a Watcher of some peers missed events
	EventUnreachable EventKind = EventKind(vni.EventUnreachable) // 1: a NIC is silent
	EventRestarted   EventKind = EventKind(vni.EventRestarted)   // 2: a NIC came back in a new life
	EventProcessGone EventKind = EventKind(vni.EventProcessGone) // 3: a process has ended
	EventNameLost    EventKind = EventKind(vni.EventNameLost)    // 4: another process has this process's name
	EventClosed      EventKind = EventKind(vni.EventClosed)      // 5: a NIC was closed, and its processes have ended
)

// Event reports the end of a NIC or a process with which this process has exchanged messages, or
// the loss of this process's name. Operations report failures by errors of their own.
type Event struct {
	Kind    EventKind
	Name    Name    // the process that ended, if its name is known; else AnyProcess
	Addr    Address // the process; Slot and Generation are 0 if the event concerns a whole NIC
	InDoubt uint64  // sends that had completed and may not have been delivered: an upper bound
	Missed  uint64  // earlier events that the Watcher did not fetch in time

	text string
}

// String returns the event as a sentence.
func (e Event) String() string { return e.text }

// Watcher returns the events of a process, each once. A process may have several Watchers, and each
// gets every event: a library and its application can both watch.
type Watcher struct {
	w     *proc.Watcher
	peers []Address
}

// Watch returns a Watcher of later events. If peers are given, it returns only events about these
// processes and their NICs. Close it when it is no longer needed.
//
// A process gets events about a peer only if it has sent to the peer or received from it. Messages
// that the peer sent before its end can still be received after the event. A NIC notices that
// another one is silent only while an operation between the two is in flight, such as a receive.
//
// When a session with a NIC ends and a new one begins, the event comes first: once a process has
// received a message of the new session, Next returns the event without a wait.
func (p *Process) Watch(peers ...Address) *Watcher {
	return &Watcher{w: p.p.Watch(), peers: slices.Clone(peers)}
}

// Next waits for the next event. It returns a queued event even if ctx is done. It fails with
// [ErrClosed] after Close of the Watcher or its process.
//
// A process keeps its last 64 events. If a Watcher misses events because it is late, its next event
// has a positive Missed. If it watches some peers and no event about them is left, it gets an
// [EventMissed]. The program must then find out by itself which peers are alive.
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

// All returns the events as they come, each with a nil error. It ends after one error: ctx's, or
// [ErrClosed].
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

// Close ends the Watcher. A Next that waits, and every later one, fails with [ErrClosed].
func (w *Watcher) Close() { w.w.Close() }

// wants reports whether an event concerns one of the peers.
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
