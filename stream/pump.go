package stream

import (
	"context"
	"errors"
	"time"

	"github.com/weftnet/weft"
)

// pump takes the received messages of all streams of a process. One goroutine pumps at a time. If a
// single Read waits, its own goroutine pumps, so no message passes from one goroutine to another.
// Otherwise the goroutine of host.run pumps. This goroutine is called the runner here.
//
//	one Read waits, and no other call  ──► the Read pumps until its bytes arrive
//	another call waits                 ──► the runner pumps, at once
//	no call waits                      ──► the runner pumps, after idleAfter without a Read
//
// Accepts, and Reads of silent streams, wait nearly always. The pump ignores them while many
// consecutive messages are for one stream, so a server that waits for more connections still
// answers its busy connection without delay. The first message for another stream ends such a row.
// That message waits at most idleAfter.
type pump struct {
	h      *host
	in     *weft.Inbox
	msg    weft.Message // the last message of the Inbox; only the goroutine that pumps uses it
	lender *Conn        // has bytes in the Inbox, or nil; only the pumping goroutine uses it
	free   *weft.Gate   // opened when the runner should check whether it must pump

	// Under host.owed.
	busy    bool   // a goroutine pumps
	waiting int    // calls that need every message at once
	patient int    // Accepts, and Reads that do not pump
	last    uint32 // the stream of the last message; 0 if it had none
	row     int    // messages in a row for that stream, up to longRow
	turns   uint64 // number of times that a Read pumped
	served  bool   // the runner took the bytes of a waiting Read
	dozing  bool   // the runner waits at most idleAfter
}

// idleAfter is the time for which no goroutine pumps after a Read has its bytes, if no other call
// waits.
const idleAfter = time.Millisecond

// longRow is the number of consecutive messages for one stream after which only calls on that
// stream count.
const longRow = 8

// others reports whether calls wait that a pumping Read would delay. The caller holds host.owed.
func (p *pump) others() bool { return p.waiting > 0 || p.patient > 0 && p.row < longRow }

// heard notes the stream of a message. The caller holds host.owed.
func (p *pump) heard(stream uint32) {
	if stream == 0 || stream != p.last {
		p.last, p.row = stream, 0
	}
	if p.row < longRow {
		p.row++
	}
}

// run is the runner. It pumps while no Read does, and returns an error when the process is closed.
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

// idle waits while Reads pump and no other call waits.
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

// doze reports whether the runner should wait longer: no other call waits, and a Read has pumped
// since the runner last checked.
func (p *pump) doze(last uint64) (turns uint64, more bool) {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	p.dozing = !p.others() && p.turns != last
	return p.turns, p.dozing
}

// next takes one message and returns the number of its stream.
func (p *pump) next(ctx context.Context) (stream uint32, err error) {
	p.settle()
	err = p.in.NextInto(ctx, &p.msg)
	if errors.Is(err, weft.ErrTruncated) { // no peer of this version sends such a long message
		return 0, nil
	}
	if err == nil {
		stream = p.h.take(&p.msg, p.msg.Data)
	}
	return stream, err
}

// turn notes that a Write waits for its flights. Only the NIC ends flights, so the runner may doze,
// as if a Read were about to pump.
func (p *pump) turn() {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	p.turns++
	p.served = true
}

// settle copies the lent bytes out of the Inbox.
func (p *pump) settle() {
	if c := p.lender; c != nil {
		p.lender = nil
		c.keep()
	}
}

// begin makes the runner the one that pumps. It returns false if a Read pumps, which opens free
// later.
func (p *pump) begin() bool {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	if p.busy {
		return false
	}
	p.busy = true
	return true
}

// If the runner served a single Read and no other call waits, leave ends the runner's turn and
// returns true. The next Read may then pump.
func (p *pump) leave(stream uint32) bool {
	p.h.owed.Lock()
	defer p.h.owed.Unlock()
	p.heard(stream)
	if p.others() || !p.served {
		return false
	}
	p.busy, p.served = false, false
	p.turns++ // for the Read that will pump soon
	p.free.Open()
	return true
}

// lead pumps one message for a Read, or for a Write that waits for room. It returns false if
// another goroutine pumps or another call waits: then the caller must wait for the runner. The
// function come reports whether the caller's wait is over. lead calls come when no other goroutine
// pumps, since another goroutine may have ended the wait after the caller checked.
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

// errCome is the reason why lead took no message.
var errCome = errors.New("stream: it has come")

// With n = 1, await notes that a call waits and needs every message at once. With n = -1, it notes
// that the call ended.
func (p *pump) await(n int) {
	p.h.owed.Lock()
	p.waiting += n
	p.unlock()
}

// awaitPatiently does the same as await, for an Accept.
func (p *pump) awaitPatiently(n int) {
	p.h.owed.Lock()
	p.patient += n
	p.unlock()
}

// awaitRead does the same as await, for a Read that does not pump. With n = -1, the Read has its
// bytes.
func (p *pump) awaitRead(n int) {
	p.h.owed.Lock()
	p.patient += n
	p.served = p.served || n < 0
	p.unlock()
}

// unlock releases host.owed, and wakes the runner if it should pump.
func (p *pump) unlock() {
	idle := !p.busy && p.others()
	p.h.owed.Unlock()
	if idle {
		p.free.Open()
	}
}
