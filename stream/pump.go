package stream

import (
	"context"
	"errors"
	"time"

	"github.com/weftnet/weft"
)

// pump takes in what comes for all streams of a process. One goroutine does that at a time. Where a single Read waits it is the goroutine that
// reads: what comes need not be handed to another. Else it is one that does nothing else.
//
//	a Read waits, and nothing else does ──► the Read pumps ──► its bytes have come
//	anything else waits                 ──► the goroutine of its own pumps, at once
//	nothing waits                       ──► likewise, after idleAfter: the next Read has as long to come
//
// Reads of silent streams, and Accepts, wait nearly always. While a row of messages has been for one stream alone they count for nothing: a server
// that accepts more connections answers the one that it has as soon. The first message for another stream ends that; it waits for idleAfter
// at most.
type pump struct {
	h      *host
	in     *weft.Inbox
	lender *Conn      // the stream that has bytes in the Inbox, if one has; of the goroutine that pumps
	free   *weft.Gate // opened when the goroutine of its own should look which goroutine pumps

	// Under host.owed.
	busy    bool   // one pumps
	waiting int    // calls that wait for something to come at once
	patient int    // Reads that do not pump, and Accepts
	last    uint32 // the stream of the last message; 0: none
	row     int    // messages in a row that were for that
	turns   uint64 // how often a Read has
	served  bool   // a Read that waited for another to pump has what it wanted
	dozing  bool   // the goroutine of its own waits for no longer than idleAfter
}

// idleAfter is how long nothing pumps when a Read has what it wanted and nothing else waits.
const idleAfter = time.Millisecond

// longRow is how many messages in a row for one stream make it the only one that counts.
const longRow = 8

// others reports whether calls wait for which a single Read does not pump. Under host.owed.
func (p *pump) others() bool { return p.waiting > 0 || p.patient > 0 && p.row < longRow }

// heard notes that a message was for a stream. Under host.owed.
func (p *pump) heard(stream uint32) {
	if stream == 0 || stream != p.last {
		p.last, p.row = stream, 0
	}
	if p.row < longRow {
		p.row++
	}
}

// run pumps wherever no Read does, until the process is closed, and returns why.
func (p *pump) run() error {
	for {
		if p.free.Wait(p.h.ctx) != nil || p.idle() != nil {
			return weft.ErrClosed
		}
		for more := p.begin(); more; {
			stream, err := p.next(p.h.ctx)
			if err != nil {
				return err
			}
			more = !p.leave(stream)
		}
	}
}

// idle waits as long as Reads take turns and nothing else waits.
func (p *pump) idle() error {
	for turns, more := p.doze(0); more; turns, more = p.doze(turns) {
		within, cancel := p.h.p.Runtime().WithTimeout(p.h.ctx, idleAfter)
		_ = p.free.Wait(within)
		cancel()
		if err := p.h.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// doze reports whether the goroutine of its own should go on waiting: nothing waits for it, and Reads have had turns since it looked last.
func (p *pump) doze(last uint64) (turns uint64, more bool) {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	p.dozing = !p.others() && p.turns != last
	return p.turns, p.dozing
}

// next takes in one message, and returns the number of its stream.
func (p *pump) next(ctx context.Context) (stream uint32, err error) {
	p.settle()
	m, err := p.in.Next(ctx)
	if errors.Is(err, weft.ErrTruncated) { // no peer of this version sends so much at a time
		return 0, nil
	}
	if err == nil {
		stream = p.h.take(&m, m.Data)
	}
	return stream, err
}

// turn notes that a Write waits for its messages to leave, which the NIC alone tells it: meanwhile nothing need pump, as when a Read takes turns.
func (p *pump) turn() {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	p.turns++
	p.served = true
}

// settle has the stream that has bytes in the Inbox keep them.
func (p *pump) settle() {
	if c := p.lender; c != nil {
		p.lender = nil
		c.keep()
	}
}

// begin has the goroutine of its own pump, if no Read does. One that does says so when it ends.
func (p *pump) begin() bool {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	if p.busy {
		return false
	}
	p.busy = true
	return true
}

// leave ends that if it was for a single Read and nothing else waits: the next one may pump itself.
func (p *pump) leave(stream uint32) bool {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	p.heard(stream)
	if p.others() || !p.served {
		return false
	}
	p.busy, p.served = false, false
	p.turns++ // the Read's, which it has soon
	p.free.Open()
	return true
}

// lead has a Read, or a Write that waits for room, take in one message, if nothing else pumps or waits. It returns false if that has to wait for
// another to do so. come reports whether what it waits for has come: it is asked when no other takes in anything any more, for one may have brought
// it since the caller looked.
func (p *pump) lead(ctx context.Context, come func() bool) bool {
	p.h.owed.Lock()
	if p.busy || p.others() {
		p.h.owed.Unlock()
		return false
	}
	p.busy = true
	p.turns++
	p.h.owed.Unlock()
	var stream uint32
	err := errCome
	if !come() {
		stream, err = p.next(ctx)
	}
	p.h.owed.Lock()
	p.busy = false
	if err == nil {
		p.heard(stream)
	}
	wake := !p.dozing || p.others()
	p.h.owed.Unlock()
	if wake {
		p.free.Open()
	}
	return err == nil || err == errCome || ctx.Err() != nil
}

// errCome is why lead took in nothing.
var errCome = errors.New("stream: it has come")

// await notes that a call waits for something to come, at once, until it is called with -1.
func (p *pump) await(n int) {
	p.h.owed.Lock()
	p.waiting += n
	p.unlock()
}

// awaitPatiently is await for an Accept.
func (p *pump) awaitPatiently(n int) {
	p.h.owed.Lock()
	p.patient += n
	p.unlock()
}

// awaitRead is await for a Read, which has what it wanted when it ends.
func (p *pump) awaitRead(n int) {
	p.h.owed.Lock()
	p.patient += n
	p.served = p.served || n < 0
	p.unlock()
}

// unlock gives host.owed back, and has the goroutine of its own look if it should pump.
func (p *pump) unlock() {
	idle := !p.busy && p.others()
	p.h.owed.Unlock()
	if idle {
		p.free.Open()
	}
}
