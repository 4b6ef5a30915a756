package sweep

import (
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
)

// sendMany sends several messages to one process in one call. They are posted in order, at
// unknown times.
func (lf *life) sendMany(rng *rand.Rand) error {
	w := lf.w
	to, tag := lf.destination(rng), rng.Uint64N(tagClasses)
	ms := make([]*message, 1+rng.IntN(20))
	w.toSend = max(0, w.toSend-len(ms)+1)
	data := make([][]byte, len(ms))
	for i := range ms {
		size := idBytes + rng.IntN(600) // long enough for the id, so that all have one tag
		if rng.IntN(16) == 0 {
			size += w.plan.drawSize(rng)
		}
		ms[i] = w.l.prepare(lf, to, tag, min(size, MaxMessage), false)
		ms[i].unordered = true
		data[i] = w.bufs.take(ms[i].size)
		fill(ms[i].id, data[i])
		w.l.post(ms[i], lf.now())
	}
	ctx, cancel := lf.deadline(rng)
	defer cancel()
	sent, err := lf.half.SendMany(ctx, proc.To(nameOf(to)), tag, data)
	if err == nil && sent < len(ms) {
		w.l.violate("%d messages of %d to %s were sent by %s, and no error says why", sent, len(ms), to, lf.name)
	}
	lf.note(&w.totals, err)
	for i, m := range ms {
		w.bufs.put(data[i])
		if i < sent {
			w.l.end(m, lf.now(), succeeded, nil)
		} else {
			w.l.end(m, lf.now(), outcomeOf(ctx, err), err)
		}
	}
	lf.inTime(ctx, ms[0], err, answerTime)
	return lf.excuse(err)
}
