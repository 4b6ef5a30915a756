package sweep

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/proc"
)

// An Inbox stays posted, and takes messages while its process does not look. Its place among the
// other receives of its process is the place of its last posting, which the sweep does not see.
// So only the order among its own messages is judged. Messages that the Inbox has not returned
// when it is closed must reach another receive.

// inbox is one Inbox of a life.
type inbox struct {
	wants  receive
	size   int           // of the longest message that it takes whole
	closed time.Duration // 0: not yet
}

// mayHavePutBack reports whether the message may have been in another Inbox before it reached
// this receive. Such a message may be later than messages that were sent after it.
func (lf *life) mayHavePutBack(m *message, this *inbox) bool {
	return slices.ContainsFunc(lf.inboxes, func(in *inbox) bool { return in != this && in.held(m) })
}

// cutBack reports whether an Inbox that kept n bytes of the message may have put it back.
func (lf *life) cutBack(m *message, n int) bool {
	return n < m.size && slices.ContainsFunc(lf.inboxes, func(in *inbox) bool { return in.held(m) && in.size == n })
}

// held reports whether a message that has arrived now may have been in the Inbox.
func (in *inbox) held(m *message) bool {
	return in.wants.fits(m) && (in.closed == 0 || in.closed >= m.posted)
}

// receiveMany receives with an Inbox for a while.
func (lf *life) receiveMany(rng *rand.Rand) error {
	w := lf.w
	r := lf.wish(rng)
	r.unordered, r.posted = true, lf.now()
	defer lf.begun(&r)()
	size, messages := idBytes+rng.IntN(4096), 1+rng.IntN(20)
	if rng.IntN(2) == 0 {
		size = idBytes + w.plan.drawSize(rng)
	}
	box := &inbox{wants: r, size: size}
	lf.inboxes = append(lf.inboxes, box)
	in := lf.half.OpenInbox(source(r.from), match(&r), size, rng.IntN(messages*(size+64)))
	defer func() {
		in.Close()
		box.closed = lf.now()
	}()
	last := make(map[*life]*message) // in the order of posting
	for range 1 + rng.IntN(3*messages) {
		ctx, cancel := lf.proc.Runtime().WithTimeout(context.Background(),
			time.Duration(rng.ExpFloat64()*float64(10*time.Millisecond)))
		m, data, err := in.Next(ctx)
		// Messages in the queue wait like those of any other receive.
		lf.inTime(ctx, &r, err, answerTime+2*w.plan.unreachableAfter)
		o := outcomeOf(ctx, err)
		cancel()
		if m == nil {
			if o == failed && !errors.Is(err, proc.ErrClosed) && !(r.from != "" && w.excused(lf, r.from)) && !lf.ended {
				w.l.violate("an Inbox, %v of %s, failed at %v without a cause: %v", &r, lf.name, lf.now(), err)
			}
			return lf.excuse(err)
		}
		if err := lf.takeOut(box, last, m, data); err != nil {
			return err
		}
		if w.phase == load && rng.IntN(8) == 0 {
			lf.pause(rng, time.Millisecond)
		}
	}
	return nil
}

// takeOut notes a message that an Inbox has returned.
func (lf *life) takeOut(box *inbox, last map[*life]*message, m *proc.Message, data []byte) error {
	w := lf.w
	w.lastCame = lf.now()
	from := m.From.String()
	if byHostile(from) {
		return nil
	}
	w.totals.Delivered++
	w.totals.Inboxes++
	a := arrival{from, m.Tag, m.Full, data, box.size, !w.plan.calm()}
	if msg := w.l.find(lf, a); msg != nil && !msg.unordered && !lf.mayHavePutBack(msg, box) {
		if before := last[msg.from]; before != nil && before.number > msg.number {
			w.l.violate("an Inbox of %s has %v before %v", lf.name, before, msg)
		}
		last[msg.from] = msg
	}
	lf.catchUp()
	w.l.deliver(lf, box.wants, a)
	return lf.answer(m, data)
}

func source(name string) proc.Dest {
	if name == "" {
		return proc.Dest{}
	}
	return proc.To(nameOf(name))
}

func match(r *receive) proc.Match {
	if r.anyTag {
		return proc.AnyTag
	}
	return proc.Tagged(r.tag)
}
