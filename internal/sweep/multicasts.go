package sweep

import (
	"errors"
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// A multicast is as many messages as it has receivers, with the same bytes. The ledger knows each of them by itself.

// mostReceivers of one multicast; most have fewer.
const mostReceivers = 24

// startMulticast posts a multicast to some names, each once, perhaps the sender's own among them. It counts as so many
// messages.
func (lf *life) startMulticast(rng *rand.Rand) (sending, error) {
	w := lf.w
	n := min(2+rng.IntN(pick(rng, 4, mostReceivers)), len(w.names))
	w.toSend = max(w.toSend-(n-1), 0)
	first := w.l.prepare(lf, "", rng.Uint64N(tagClasses), w.plan.drawSize(rng), false)
	s := sending{buf: w.bufs.take(first.size)}
	fill(first.id, s.buf)
	var to []vni.Name
	for _, i := range rng.Perm(len(w.names))[:n] {
		m := *first
		m.to = w.names[i]
		s.ms = append(s.ms, &m)
		to = append(to, nameOf(m.to))
	}
	var err error
	s.op, err = lf.retry(func() (*proc.Op, error) {
		o, err := lf.half.StartMulticast(to, first.tag, parts(rng, s.buf)...)
		if err == nil {
			for _, m := range s.ms {
				w.l.post(m, lf.now())
			}
		}
		return o, err
	})
	if err != nil {
		w.bufs.put(s.buf)
		return sending{}, lf.excuse(err)
	}
	w.totals.Multicasts++
	return s, nil
}

// outcomeFor is how the message to one receiver has ended, as far as the end of the multicast tells: if it failed, it
// failed for the receiver that the error names.
func outcomeFor(m *message, n int, o outcome, err error) outcome {
	var op *proc.OpError
	if n == 1 || o != failed || errors.As(err, &op) && op.Peer.String() == m.to {
		return o
	}
	return undecided
}
