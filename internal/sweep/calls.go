package sweep

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// A call is a message that expects a reply. The ledger handles it as a message; this file checks
// the reply.

// callTime limits a call, because its receiver may be killed, or may have a buffer that is too
// small to identify the call.
const callTime = 50 * time.Millisecond

const (
	leastCall  = idBytes // long enough to identify the call
	mostCall   = 2000
	replyBytes = 40
)

// replyOf returns the id whose noise answers a message.
func replyOf(id uint64) uint64 { return ^id }

// call sends a message and waits for its reply.
func (lf *life) call(rng *rand.Rand) error {
	w := lf.w
	m := w.l.prepare(lf, lf.destination(rng), rng.Uint64N(tagClasses), leastCall+rng.IntN(mostCall-leastCall), false)
	m.unordered = true // it may wait for a context before it is posted
	buf, reply := w.bufs.take(m.size), w.bufs.take(replyBytes)
	fill(m.id, buf)
	w.l.post(m, lf.now())
	ctx, cancel := lf.proc.Runtime().WithTimeout(context.Background(), callTime)
	defer cancel()
	got, err := lf.half.Call(ctx, proc.To(nameOf(m.to)), m.tag, reply, buf)
	if err == nil {
		w.totals.Calls++
		if e := compare(replyOf(m.id), replyBytes, reply[:got.Len]); e != nil || got.Len != replyBytes {
			w.l.violate("the reply of %d bytes to %v is not its own: %v", got.Len, m, e)
		}
	}
	w.bufs.put(buf)
	w.bufs.put(reply)
	lf.note(&w.totals, err)
	w.l.end(m, lf.now(), outcomeOf(ctx, err), err)
	return lf.excuse(err)
}

// answer replies to a message if it is a call that can be identified.
func (lf *life) answer(m *proc.Message, b []byte) error {
	if !m.IsCall() || len(b) < idBytes {
		return nil
	}
	id := readID(b)
	reply := lf.w.bufs.take(replyBytes)
	fill(replyOf(id), reply)
	ctx, cancel := lf.proc.Runtime().WithTimeout(context.Background(), callTime)
	defer cancel()
	err := lf.half.Reply(ctx, m, reply) // may fail: the caller may have given up or ended
	lf.w.bufs.put(reply)
	if errors.Is(err, proc.ErrCancelled) {
		lf.w.l.givenUp(id, lf.name, lf.now())
	}
	return lf.excuse(err)
}

// givenUp notes that a reply was refused because its caller no longer waits: the time of the call
// is over, or the caller has ended.
func (l *ledger) givenUp(id uint64, to string, now time.Duration) {
	m := l.messages[copyID{id, to}]
	if m != nil && m.outcome == pending && !m.from.ended && now < m.posted+callTime {
		l.violate("the reply to %v was refused at %v, as if its caller had given up", m, now)
	}
}
