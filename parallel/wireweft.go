package parallel

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
)

// machinePort is the port of a process on which the ranks of its machine communicate.
const machinePort = 0xff02

// weftWire is a wire over a process of Weft. Two groups watch over the ranks. In the first group
// all ranks but rank 0 start a barrier. In the second group only rank 0 starts one. So each rank
// waits in a barrier that completes only at the end, and that fails as soon as a rank is gone:
//
//	group   rank 0      other ranks
//	first   watches     barrier ──► fails if a rank ends
//	second  barrier     watch
type weftWire struct {
	p      *weft.Process
	g      *weft.Group // of all ranks; the program's
	port   *weft.Port
	inbox  *weft.Inbox
	m      weft.Message
	peers  []weft.Peer
	names  []weft.Name
	sends  []*posted // in flight
	spare  []*posted
	guards [2]*weft.Group
	guard  *guard
	unseen bool // for tests: a defect
}

// A guard is the barrier in which this rank waits.
type guard struct {
	op     weft.GroupOp
	left   atomic.Bool // the barrier may fail without meaning
	broken atomic.Pointer[RankError]
}

// posted is a send in flight with its header.
type posted struct {
	op    weft.Op
	to    int
	head  [headerLen]byte
	parts [2][]byte
}

func newWeftWire(ctx context.Context, p *weft.Process, g *weft.Group) (*weftWire, error) {
	port, err := p.Port(machinePort)
	if err != nil {
		return nil, err
	}
	inbox, err := port.Inbox(weft.AnyProcess, weft.AnyTag, maxMessage)
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	w := &weftWire{p: p, port: port, inbox: inbox}
	if err := w.over(ctx, g); err != nil {
		inbox.Close()
		return nil, errors.Join(err, port.Close())
	}
	return w, nil
}

// over makes the members of g the ranks of the wire.
func (w *weftWire) over(ctx context.Context, g *weft.Group) error {
	w.g, w.peers, w.names = g, nil, nil
	for i := range g.Size() {
		w.names = append(w.names, g.Member(i))
		w.peers = append(w.peers, w.port.Peer(g.Member(i)))
	}
	w.guards = [2]*weft.Group{}
	for i := range w.guards {
		var err error
		if w.guards[i], err = g.Split(ctx, 0); err != nil {
			w.closeGuards()
			return err
		}
	}
	if err := w.watch(); err != nil {
		w.closeGuards()
		return err
	}
	return nil
}

// epoch returns a number that differs for two machines with the same processes, even if both are
// over the same group: each Split gives its groups new names.
func (w *weftWire) epoch() uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, w.g.Name(), w.g.Epoch(), w.guards[0].Name())
	return h.Sum32()
}

// closeGuards leaves the groups of the guards. Close of a group fails only if this process has
// already left the group.
func (w *weftWire) closeGuards() {
	for _, g := range w.guards {
		if g != nil {
			_ = g.Close()
		}
	}
}

// watch starts the barrier in which this rank waits until the end.
func (w *weftWire) watch() error {
	d := new(guard)
	w.guard = d
	group := w.guards[0]
	if w.rank() == 0 {
		group = w.guards[1]
	}
	if w.size() == 1 {
		return nil
	}
	if err := group.StartBarrier(context.Background(), &d.op); err != nil {
		return err
	}
	run, names := w.p.Runtime(), w.names
	run.Go(func() {
		err := d.op.Wait(context.Background())
		if err == nil || d.left.Load() || w.unseen {
			return
		}
		d.broken.Store(lost(err, names))
		run.Wake()
		// A message to this process itself ends a receive that waits; see next. A closed process
		// receives no more messages.
		_ = w.port.Send(context.Background(), w.p.Name(), 0)
	})
	return nil
}

// gone returns an error of Weft as the loss of a rank.
func gone(rank int, err error) *RankError {
	return &RankError{rank, "", &told{fmt.Sprintf("%v: %v", ErrRankGone, err), ErrRankGone}}
}

// lost returns the error of a guard as the loss of a rank. The program does not know the group of
// the guard, so the text leaves it out.
func lost(err error, names []weft.Name) *RankError {
	var of *weft.GroupError
	if errors.As(err, &of) && of.Dead != weft.AnyProcess {
		return gone(slices.Index(names, of.Dead), fmt.Errorf("%v has left or ended", of.Dead))
	}
	return gone(-1, err)
}

func (w *weftWire) rank() int          { return w.g.Rank() }
func (w *weftWire) size() int          { return w.g.Size() }
func (w *weftWire) world() *weft.Group { return w.g }

// post sends at once if the NIC accepts the message at once. Otherwise it starts a send.
func (w *weftWire) post(ctx context.Context, to int, head *[headerLen]byte, data []byte) error {
	var s *posted
	if n := len(w.spare); n > 0 {
		s, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		s = new(posted)
	}
	s.head, s.to = *head, to
	s.parts = [2][]byte{s.head[:], data}
	if w.peers[to].TrySend(0, s.parts[:]...) {
		w.spare = append(w.spare, s)
		return nil
	}
	for {
		err := w.peers[to].StartSend(&s.op, 0, s.parts[:]...)
		if err == nil {
			w.sends = append(w.sends, s)
			return nil
		}
		if !errors.Is(err, weft.ErrQueueFull) { // other sends of the program may fill the queue
			w.spare = append(w.spare, s)
			return gone(to, err)
		}
		ended, err := w.reap(ctx)
		if err == nil && ended > 0 {
			continue
		}
		w.spare = append(w.spare, s)
		if err == nil {
			w.lookAgain()
			err = errWireFull
		}
		return err
	}
}

// reap ends the sends that are done, and returns their number.
func (w *weftWire) reap(ctx context.Context) (n int, err error) {
	for i := 0; i < len(w.sends); {
		if !w.sends[i].op.Ended() {
			i++
			continue
		}
		if err := w.flushOne(ctx, i); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// lookAgainAfter is the time after which a rank checks whether it may send more, if no message
// arrives.
const lookAgainAfter = 100 * time.Microsecond

// lookAgain ends a receive soon, by a message of this process to itself; see next.
func (w *weftWire) lookAgain() {
	run := w.p.Runtime()
	run.Go(func() {
		ctx := context.Background()
		if run.Sleep(ctx, lookAgainAfter) == nil {
			_ = w.port.Send(ctx, w.p.Name(), 0) // fails only after the end of the process
		}
	})
}

// flush waits for the sends of an operation.
func (w *weftWire) flush(ctx context.Context, seq uint64) error {
	for i := 0; i < len(w.sends); {
		if binary.LittleEndian.Uint64(w.sends[i].head[8:]) != seq {
			i++
			continue
		}
		if err := w.flushOne(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// flushOne waits for send i of those in flight.
func (w *weftWire) flushOne(ctx context.Context, i int) error {
	s, d := w.sends[i], w.guard
	if !s.op.Ended() {
		ready := func() bool { return s.op.Ended() || d.broken.Load() != nil }
		if err := w.p.Runtime().WaitUntil(ctx, ready); err != nil {
			return err
		}
	}
	if !s.op.Ended() {
		return d.broken.Load()
	}
	_, err := s.op.Wait(ctx)
	w.sends = slices.Delete(w.sends, i, i+1)
	w.spare = append(w.spare, s)
	if err != nil {
		return gone(s.to, err)
	}
	return nil
}

// flushShort waits for the short sends in flight. They include the fault that a failing rank
// sends. A long send may wait for a receiver that has failed too.
func (w *weftWire) flushShort(ctx context.Context) {
	for _, s := range w.sends {
		if len(s.parts[1]) <= shortBytes && w.p.Runtime().WaitUntil(ctx, s.op.Ended) != nil {
			return
		}
	}
}

// next returns the next message of a rank. If last is true, it also returns those that arrive after
// a rank is gone.
func (w *weftWire) next(ctx context.Context, last bool) ([]byte, error) {
	for {
		if err := w.guard.broken.Load(); err != nil && !last {
			return nil, err
		}
		if err := w.inbox.NextInto(ctx, &w.m); errors.Is(err, weft.ErrTruncated) {
			continue // not from a rank
		} else if err != nil {
			return nil, err
		}
		if w.m.From == w.p.Name() {
			return nil, nil
		}
		b := w.m.Data
		if len(b) < headerLen {
			continue // not from a rank
		}
		if r := binary.LittleEndian.Uint32(b[4:]); int(r) < len(w.names) && w.names[r] == w.m.From {
			return b, nil
		}
	}
}

// leave completes the barriers of the guards if the end is orderly, and leaves their groups.
func (w *weftWire) leave(ctx context.Context, orderly bool) error {
	err := w.abandon(ctx, orderly)
	w.inbox.Close()
	return errors.Join(err, w.port.Close())
}

// abandon leaves the guards and ends the sends in flight.
func (w *weftWire) abandon(ctx context.Context, orderly bool) error {
	if w.guard.left.Load() {
		return nil
	}
	var err error
	if orderly && w.size() > 1 {
		other := w.guards[1]
		if w.rank() == 0 {
			other = w.guards[0]
		}
		if broken := cmp.Or(other.Barrier(ctx), w.guard.op.Wait(ctx)); broken != nil {
			err = lost(broken, w.names)
		}
	}
	w.guard.left.Store(true)
	w.flushShort(ctx)
	w.closeGuards()
	for _, s := range w.sends {
		s.op.Cancel()
		_, _ = s.op.Wait(ctx) // a failing rank has already sent its error
	}
	w.sends = nil
	return err
}

// shrink makes the remaining members the ranks. If one more rank ends before the guards are in
// place, it begins again. The other remaining ranks do the same, or their guards are broken.
func (w *weftWire) shrink(ctx context.Context) (wire, uint32, error) {
	if err := w.abandon(ctx, false); err != nil {
		return nil, 0, err
	}
	for {
		g, err := w.g.Shrink(ctx)
		if err != nil {
			return nil, 0, err
		}
		if err = w.over(ctx, g); err == nil {
			return w, w.epoch(), nil
		}
		if !errors.Is(err, weft.ErrGroupBroken) {
			return nil, 0, errors.Join(err, g.Close())
		}
	}
}
