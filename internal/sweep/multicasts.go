package sweep

import (
	"errors"
	"math/rand/v2"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// A multicast counts as one message for each receiver, all with the same bytes. The ledger holds
// each of them separately.

// mostReceivers is the maximum number of receivers of a multicast. Most multicasts have fewer.
const mostReceivers = 24

// startMulticast posts a multicast to several names, each once. The sender's own name may be
// among them. The multicast counts as one message for each name.
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

// outcomeFor returns the outcome of the message to one receiver, as far as the end of the
// multicast shows it. If the multicast failed, the message failed for the receiver that the error
// names.
func outcomeFor(m *message, n int, o outcome, err error) outcome {
	var op *proc.OpError
	if n == 1 || o != failed || errors.As(err, &op) && op.Peer.String() == m.to {
		return o
	}
	return undecided
}
