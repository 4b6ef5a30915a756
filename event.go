package weft

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// EventKind is what an [Event] tells.
type EventKind uint32

const (
	EventUnreachable EventKind = EventKind(vni.EventUnreachable) // a NIC is silent
	EventRestarted   EventKind = EventKind(vni.EventRestarted)   // a NIC came back in another life
	EventProcessGone EventKind = EventKind(vni.EventProcessGone) // a process has ended
	EventNameLost    EventKind = EventKind(vni.EventNameLost)    // the fabric gave this process's name to another one after a partition
	EventClosed      EventKind = EventKind(vni.EventClosed)      // a NIC was closed: it has said goodbye, and its processes have ended
	EventMissed      EventKind = 0                               // to a Watcher of some peers: events were missed, and none of its own has come behind them
)

// Event tells of something that belongs to no operation: the end of a NIC or process that this one has sent to or received from.
type Event struct {
	Kind    EventKind
	Name    Name    // of the process that is meant, if one is and its name is known
	Addr    Address // of it, or of the NIC alone
	InDoubt uint64  // at most so many sends to the NIC that had completed were not delivered
	Missed  uint64  // events before this one that were not fetched in time

	text string
}

func (e Event) String() string { return e.text }

// NextEvent waits for the next event. One that is there is returned though ctx has ended.
//
// When the session with a NIC ends, each process that has sent to that NIC or received from it is told, before anything of the
// next session reaches it: a process that has received a message of the next session finds the event here without waiting. Messages that had been
// accepted before the end can be received after it.
func (p *Process) NextEvent(ctx context.Context) (Event, error) {
	e, missed, err := p.p.NextEvent(ctx)
	if err != nil {
		return Event{}, err
	}
	return eventOf(&e, missed), nil
}

func eventOf(e *vni.Event, missed uint64) Event {
	return Event{Kind: EventKind(e.Kind), Name: nameOf(e.Name), Addr: Address{NICID(e.NIC), e.Slot, e.Gen}, InDoubt: e.Count, Missed: missed, text: e.String()}
}

// Watcher hands out the events of a process to one of those on it that want them. Each Watcher gets all of its events, whatever others and
// [Process.NextEvent] take, so an application and its libraries do not miss what the other has read.
type Watcher struct {
	w     *proc.Watcher
	peers []Address
}

// Watch returns a Watcher of the events from now on: of all, or, if peers are given, of those that concern one of these processes or the NIC
// of one. That a peer has gone is told if the process has sent to it or received from it; messages that it sent before may still come. That
// its NIC is silent is found out while something is under way with it, such as a receive from it.
func (p *Process) Watch(peers ...Address) *Watcher {
	return &Watcher{w: p.p.Watch(), peers: slices.Clone(peers)}
}

// Next waits for the watcher's next event. One that is there is returned though ctx has ended. [EventClosed] says that the NIC of a peer was
// closed in order, [EventUnreachable] that it is silent.
//
// The last 64 events of a process are kept. A Watcher that does not keep up is told so at once, by the Missed of an event of its own or by an
// [EventMissed]: so many it did not get, its peers' or not. It then has to ask its peers themselves.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	missed := uint64(0)
	for {
		e, m, err := w.w.Next(ctx)
		if missed += m; err != nil {
			return Event{Missed: missed}, err
		}
		if w.wants(&e) {
			return eventOf(&e, missed), nil
		}
		if missed > 0 {
			return Event{Kind: EventMissed, Missed: missed, text: fmt.Sprintf("%d events missed", missed)}, nil
		}
	}
}

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

// Close ends the Watcher. A Next that waits, and every later one, fails with [ErrClosed].
func (w *Watcher) Close() { w.w.Close() }
