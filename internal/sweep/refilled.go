package sweep

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
)

// The blocking forms of processes that stage describe their memory while they run, if it has many
// pieces or is longer than the pool has room for. A blocking form may wait for a context before
// it is posted, so the order of these messages is not judged.

// sendWaiting sends a long message and waits for it.
func (lf *life) sendWaiting(rng *rand.Rand) error {
	w := lf.w
	const least = 16 << 10
	m := w.l.prepare(lf, lf.destination(rng), rng.Uint64N(tagClasses), least+rng.IntN(MaxMessage-least),
		rng.Float64() < w.plan.accept)
	m.unordered = true
	buf := w.bufs.take(m.size)
	fill(m.id, buf)
	memory := [][]byte{buf}
	mine := lf.scattered != nil && rng.IntN(2) == 0
	if mine {
		memory = scatter(rng, buf, lf.scattered)
		defer func(mem []byte) { lf.scattered = mem }(lf.scattered)
		lf.scattered = nil // so that the other function does not take it
	}
	w.l.post(m, lf.now())
	ctx, cancel := lf.deadline(rng)
	defer cancel()
	send := lf.half.Send
	if m.accept {
		send = lf.half.SendDelivered
	}
	err := send(ctx, proc.To(nameOf(m.to)), m.tag, memory...)
	if errors.Is(err, proc.ErrTruncated) {
		err = nil
	}
	for _, b := range memory {
		scribble(b)
	}
	w.bufs.put(buf)
	lf.note(&w.totals, err)
	w.l.end(m, lf.now(), outcomeOf(ctx, err), err)
	lf.inTime(ctx, m, err, answerTime)
	return lf.excuse(err)
}

// scatter cuts a message into pieces that lie in random order in mem.
func scatter(rng *rand.Rand, b, mem []byte) (pieces [][]byte) {
	for at := 0; at < len(b); {
		n := min(1+rng.IntN(20_000), len(b)-at)
		pieces = append(pieces, mem[at:at+n:at+n])
		at += n
	}
	rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	for _, p := range pieces {
		b = b[copy(p, b):]
	}
	return pieces
}

// receiveWaiting receives by the blocking form.
func (lf *life) receiveWaiting(ctx context.Context, r *receive, buf []byte) (got, error) {
	r.unordered, r.posted = true, lf.now()
	m, err := lf.half.Recv(ctx, source(r.from), match(r), buf)
	if errors.Is(err, proc.ErrTruncated) {
		err = nil
	}
	return got{m.From.String(), m.Tag, m.Len, m.Full, m}, err
}
