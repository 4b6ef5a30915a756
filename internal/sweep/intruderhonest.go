package sweep

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// honest holds the processes of an attacked fabric. They send each other messages of all lengths,
// and PUT into a region and GET from it. When all messages have arrived, NIC 2 restarts, and its
// next process does the same.
//
//	honest/0 … honest/2 ─► all done ─► NIC 2 restarts ─► honest/0, honest/1, again/0 ─► all done
type honest struct {
	x      *intruder
	owners map[string]weft.Address
	begun  int
	tasks  int // functions that talk, listen and move, and have begun
	done   int // functions of these that have ended
	round  int // 0, or 1 after the restart of NIC 2
	over   bool
	kept   []keptBuffer
	region *weft.Region // of honest/1; honest/0 PUTs into it
	left   int          // processes that have seen the end
	regard []byte       // the expected contents of the region
}

// keptBuffer is a message as it was delivered. It must not change.
type keptBuffer struct {
	got, want []byte
}

const (
	honestMessages = 20 // from each process to each other, in a round
	honestMoves    = 6  // PUTs and GETs in a round
	honestRegion   = 64 << 10
	longRegion     = 3 << 20
)

func honestName(i int) weft.Name {
	if i == intruderHonest {
		return weft.Name{App: "again"}
	}
	return weft.Name{App: "honest", Index: uint32(i)}
}

// begin starts the processes.
func (h *honest) begin() {
	h.owners = map[string]weft.Address{}
	for i := range intruderHonest {
		h.x.f.Process(i, honestName(i).String(), func(p *sim.Process) error { return h.main(p, i) })
	}
}

// working reports whether operations are in flight.
func (h *honest) working() bool { return h.done < h.tasks }

// peers returns the processes that work together in a round.
func (h *honest) peers() []int { return []int{0, 1, 2 + h.round} }

func (h *honest) main(p *sim.Process, i int) error {
	p.Runtime().Sleep(context.Background(), h.x.members.begins())
	h.owners[honestName(i).String()] = p.Address()
	if i == 1 {
		n := honestRegion
		if h.x.long {
			n = longRegion
		}
		r, err := p.Weft().Alloc(n)
		if err != nil {
			return err
		}
		h.region, h.regard = r, bytes.Clone(r.Bytes())
	}
	if i < 2 {
		p.Start("from the member", func(p *sim.Process) error { return h.indulge(p) })
	}
	for round := h.round; round < 2; round++ {
		if err := h.work(p, i); err != nil {
			return err
		}
		for h.working() || h.begun < 3*(round+1) {
			p.Runtime().Sleep(context.Background(), time.Millisecond)
		}
		if i == 2 {
			h.x.f.After(2*time.Millisecond, h.restart)
			return nil
		}
		for h.round == round && round == 0 {
			p.Runtime().Sleep(context.Background(), time.Millisecond)
		}
	}
	for h.x.members.trusted() { // until no NIC trusts a bad member any more
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	if h.left++; h.left == 3 {
		h.judge()
	}
	for !h.over {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	return nil
}

// restart stops NIC 2 and starts it again, as after a crash.
func (h *honest) restart() {
	x := h.x
	delete(h.owners, honestName(2).String())
	x.watch.restarts(2)
	x.f.StopNIC(2)
	x.f.After(3*time.Millisecond, func() {
		x.f.StartNIC(2)
		h.round = 1
		x.f.Process(2, honestName(intruderHonest).String(),
			func(p *sim.Process) error { return h.main(p, intruderHonest) })
	})
}

// work does the work of a process in one round.
func (h *honest) work(p *sim.Process, i int) error {
	for _, k := range h.peers() {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), intruderLimit/4)
		_, err := p.WaitName(ctx, honestName(k))
		if cancel(); err != nil {
			return fmt.Errorf("%v does not find %v: %w", honestName(i), honestName(k), err)
		}
	}
	h.begun++
	for _, k := range h.peers() {
		if k != i {
			h.task(p, fmt.Sprintf("to %d", k), func(p *sim.Process) { h.talk(p, i, k) })
			h.task(p, fmt.Sprintf("from %d", k), func(p *sim.Process) { h.listen(p, k, i) })
		}
	}
	if i == 0 {
		h.task(p, "moves", h.move)
	}
	return nil
}

// task starts a function. The round waits for the function's end.
func (h *honest) task(p *sim.Process, name string, do func(p *sim.Process)) {
	h.tasks++
	p.Start(fmt.Sprintf("%s, round %d", name, h.round), func(p *sim.Process) error {
		do(p)
		h.done++
		return nil
	})
}

// tag returns the tag of the messages of a round.
func (h *honest) tag() weft.Tag { return weft.Tag(7 + h.round) }

func (h *honest) talk(p *sim.Process, i, k int) {
	for n := range honestMessages {
		to := p.Peer(honestName(k))
		send := to.Send
		if n%3 == 0 {
			send = to.SendDelivered
		}
		if err := send(context.Background(), h.tag(), saneMessage(i, k, n)); err != nil {
			h.x.violate("message %d from %v to %v: %v", n, honestName(i), honestName(k), err)
			return
		}
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().ExpFloat64()*float64(1200*time.Microsecond)))
	}
}

func (h *honest) listen(p *sim.Process, k, i int) {
	for n := range honestMessages {
		want := saneMessage(k, i, n)
		buf := make([]byte, len(want)+1)
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), intruderLimit/4)
		m, err := p.Recv(ctx, honestName(k), h.tag(), buf)
		cancel()
		if err != nil {
			h.x.violate("message %d from %v to %v does not come: %v", n, honestName(k), honestName(i), err)
			return
		}
		if !bytes.Equal(buf[:m.Len], want) {
			h.x.violate("message %d from %v to %v came as %d other bytes", n, honestName(k), honestName(i), m.Len)
		}
		h.kept = append(h.kept, keptBuffer{buf[:m.Len], want})
	}
}

// move PUTs into the region and GETs the contents.
func (h *honest) move(p *sim.Process) {
	for h.region == nil {
		p.Runtime().Sleep(context.Background(), time.Millisecond)
	}
	for n := range honestMoves {
		size := len(h.regard) / 8
		if h.x.long && n == 0 && h.round == 0 {
			size = len(h.regard)
		}
		at := p.Rand().IntN(len(h.regard) - size + 1)
		data := cut(uint64(1000*h.round+n), 0, min(size, MaxMessage))
		for ; size > 0; at, size = at+len(data), size-len(data) {
			data = data[:min(size, len(data))]
			if err := p.Weft().Put(context.Background(), h.region.Handle(), at, data); err != nil {
				h.x.violate("PUT %d of %d bytes: %v", n, len(data), err)
				return
			}
			copy(h.regard[at:], data)
		}
		got := make([]byte, 10_000)
		at = p.Rand().IntN(len(h.regard) - len(got))
		if err := p.Weft().Get(context.Background(), h.region.Handle(), at, got); err != nil ||
			!bytes.Equal(got, h.regard[at:at+len(got)]) {
			h.x.violate("GET %d came with other bytes: %v", n, err)
			return
		}
		p.Runtime().Sleep(context.Background(), time.Duration(p.Rand().ExpFloat64()*float64(3*time.Millisecond)))
	}
}

// indulge receives the messages of the member, while it is trusted and afterwards.
func (h *honest) indulge(p *sim.Process) error {
	for buf := make([]byte, 40_000); !h.over; {
		ctx, cancel := p.Runtime().WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := p.Recv(ctx, weft.AnyProcess, memberTag, buf)
		if cancel(); err == nil && !h.x.members.trusted() {
			h.x.violate("a message of a member that has %v is delivered", h.x.members.fault)
		}
	}
	return nil
}

// judge checks that acknowledged data has not changed, and ends the run.
func (h *honest) judge() {
	for n, k := range h.kept {
		if !bytes.Equal(k.got, k.want) {
			h.x.violate("message %d of those delivered has changed since, at byte %d of %d", n,
				mismatch(k.got, k.want), len(k.want))
		}
	}
	if got := h.region.Bytes(); !bytes.Equal(got, h.regard) {
		h.x.violate("byte %d of a region is not what was PUT", mismatch(got, h.regard))
	}
	h.x.watch.judge()
	h.over = true
}
