package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// life is one life of a process: from its registration to its end. Its successor with the same
// name is another life.
//
// The functions of a life are written like user code: blocking calls with contexts. At each call,
// they also tell the ledger what they do. No other part of the fabric sees that.
type life struct {
	w      *world
	name   string
	host   int
	number int // number among all lives of the run
	// The time at which its NIC had registered it. Until then, messages to its name may reach the
	// life before it.
	born  time.Duration
	heir  bool // another life had its name before
	ended bool
	// The life was still there when everything had come to rest, so it had received all that
	// arrived.
	clean bool

	proc   *sim.Process
	half   *proc.Process
	region *region
	// scattered is a region from which long messages go in pieces. It is nil while one does.
	scattered []byte
	senders   int // functions that still send

	sent     map[string]int // messages posted, by name of the destination
	received int            // receives posted
	events   []event        // events that its NIC reported about others
	heard    map[int]heard  // by host
	missed   uint64         // events that it missed because they came too fast

	inboxes []*inbox

	open map[fmt.Stringer]time.Duration // receives, PUTs and GETs in flight, and their start times
}

// begun notes an operation in flight. The caller calls the returned function at the end.
func (lf *life) begun(what fmt.Stringer) (ended func()) {
	lf.open[what] = lf.now()
	return func() { delete(lf.open, what) }
}

// move is a PUT or GET in the list of operations in flight.
type move struct {
	what string
	peer *life
	size int
}

func (m *move) String() string { return fmt.Sprintf("%s of %d B at %s", m.what, m.size, m.peer.name) }

// event is an event about a peer, as a life received it.
type event struct {
	at    time.Duration
	host  int
	name  string // "": all processes of the host
	count int    // sends to the host that may not have been delivered
}

// main is the main function of the process. It runs until the run closes, or its NIC vanishes.
func (lf *life) main(p *sim.Process) error {
	lf.proc, lf.half, lf.born = p, simulated.Half(p), lf.now()
	if err := lf.alloc(); err != nil {
		return lf.verdict(err)
	}
	for i := range 1 + p.Rand().IntN(2) {
		lf.senders++
		lf.w.sending++
		p.Start(fmt.Sprintf("sender %d", i), func(*sim.Process) error { return lf.verdict(lf.send(p.Rand())) })
	}
	for i := range 1 + p.Rand().IntN(2) {
		p.Start(fmt.Sprintf("receiver %d", i), func(*sim.Process) error { return lf.verdict(lf.receive(p.Rand())) })
	}
	p.Start("watcher", func(*sim.Process) error { return lf.verdict(lf.watch()) })
	for lf.w.phase != closing && !lf.ended {
		p.Runtime().Sleep(context.Background(), 50*time.Millisecond)
	}
	return nil
}

// errEnded ends a function whose process's NIC has vanished.
var errEnded = errors.New("the NIC has vanished")

// verdict turns the error of a function into an error of the run, unless the life was ended from
// outside.
func (lf *life) verdict(err error) error {
	if lf.ended || err == nil {
		return nil
	}
	return err
}

func (lf *life) now() time.Duration { return lf.w.f.Elapsed() }

// pause sleeps for about d, sometimes much longer.
func (lf *life) pause(rng *rand.Rand, d time.Duration) {
	lf.proc.Runtime().Sleep(context.Background(), time.Duration(rng.ExpFloat64()*float64(d)))
}

// send is a sending function: it sends, PUTs and GETs until all functions together have done what
// the plan requires.
func (lf *life) send(rng *rand.Rand) error {
	w := lf.w
	var flight []sending
	for w.phase == load && !lf.ended {
		kind := rng.IntN(w.toSend + w.toPut + w.toGet + 1)
		var err error
		switch {
		case rng.IntN(40) == 0:
			err = lf.renew()
		case w.toSend <= 0:
			w.toPut, w.toGet = 0, 0
			for ; len(flight) > 0 && err == nil; flight = flight[1:] {
				err = lf.finish(rng, flight[0])
			}
			if !lf.ended { // otherwise the world has already subtracted it
				lf.senders--
				w.sending--
			}
			return err
		case kind < w.toPut:
			w.toPut--
			err = lf.put(rng)
		case kind < w.toPut+w.toGet:
			w.toGet--
			err = lf.get(rng)
		default:
			w.toSend--
			w.act()
			if rng.IntN(16) == 0 {
				err = lf.call(rng)
				break
			}
			if w.plan.hooks.Pool && rng.IntN(8) == 0 {
				err = lf.sendWaiting(rng)
				break
			}
			if rng.IntN(30) == 0 {
				err = lf.sendMany(rng)
				break
			}
			start := lf.startMessage
			if rng.IntN(40) == 0 {
				start = lf.startMulticast
			}
			var s sending
			if s, err = start(rng); err == nil && s.op != nil {
				flight = append(flight, s)
			}
			for len(flight) >= w.plan.flight && err == nil {
				i := 0
				if rng.IntN(8) == 0 {
					i = rng.IntN(len(flight))
				}
				s := flight[i]
				flight = append(flight[:i], flight[i+1:]...)
				err = lf.finish(rng, s)
			}
		}
		if err != nil {
			return err
		}
		lf.pause(rng, w.plan.think)
	}
	return nil
}

// sending is a message in flight at its sender, or the messages of a multicast.
type sending struct {
	ms  []*message
	op  *op
	buf []byte
}

// destination draws the receiver of a message: often a process of the same NIC, sometimes the
// sender itself.
func (lf *life) destination(rng *rand.Rand) string {
	w := lf.w
	if rng.Float64() < w.plan.local {
		for range 4 {
			if name := pick(rng, w.names...); w.homes[name] == lf.host {
				return name
			}
		}
	}
	return pick(rng, w.names...)
}

// startMessage posts a message.
func (lf *life) startMessage(rng *rand.Rand) (sending, error) {
	w := lf.w
	return lf.startTo(rng, w.l.prepare(lf, lf.destination(rng), rng.Uint64N(tagClasses), w.plan.drawSize(rng),
		rng.Float64() < w.plan.accept))
}

// startTo posts a prepared message.
func (lf *life) startTo(rng *rand.Rand, m *message) (sending, error) {
	w := lf.w
	buf := w.bufs.take(m.size)
	fill(m.id, buf)
	op, err := lf.startSend(m, parts(rng, buf), func() { w.l.post(m, lf.now()) })
	if err != nil {
		w.bufs.put(buf)
		return sending{}, lf.excuse(err)
	}
	return sending{[]*message{m}, op, buf}, nil
}

// tagClasses is the number of tags that the messages of one kind share.
const tagClasses = 4

// finish waits for the end of a send, sometimes with a deadline.
func (lf *life) finish(rng *rand.Rand, s sending) error {
	w := lf.w
	ctx, cancel := lf.deadline(rng)
	defer cancel()
	_, err := s.op.wait(ctx)
	w.bufs.put(s.buf)
	lf.note(&w.totals, err)
	for _, m := range s.ms {
		w.l.end(m, lf.now(), outcomeFor(m, len(s.ms), outcomeOf(ctx, err), err), err)
	}
	lf.inTime(ctx, s.ms[0], err, answerTime)
	return nil
}

// deadline makes the context of an operation. Most contexts have no deadline.
func (lf *life) deadline(rng *rand.Rand) (context.Context, context.CancelFunc) {
	if rng.Float64() >= lf.w.plan.cancel {
		return context.Background(), func() {}
	}
	return lf.proc.Runtime().WithTimeout(context.Background(),
		time.Duration(rng.ExpFloat64()*float64(5*time.Millisecond)))
}

// answerTime is the time within which a NIC that gets turns answers a Cancel.
const answerTime = 5 * time.Millisecond

// inTime checks that an operation ended soon after its context did.
func (lf *life) inTime(ctx context.Context, what fmt.Stringer, err error, limit time.Duration) {
	at, ok := ctx.Deadline()
	late := lf.proc.Runtime().Now().Sub(at)
	if ok && outcomeOf(ctx, err) == cancelled && !lf.w.touched[lf.host] && late > limit {
		lf.w.l.violate("%v of %s ended %v after its context", what, lf.name, late)
	}
}

// parts splits a buffer into up to four pieces of memory.
func parts(rng *rand.Rand, b []byte) [][]byte {
	if rng.IntN(4) != 0 || len(b) < 4 {
		return [][]byte{b}
	}
	var l [][]byte
	for len(b) > 0 && len(l) < 3 {
		n := rng.IntN(len(b) + 1)
		l = append(l, b[:n:n])
		b = b[n:]
	}
	return append(l, b)
}

// put PUTs noise into a life's region and checks that it is there.
func (lf *life) put(rng *rand.Rand) error {
	w := lf.w
	to := w.target(rng)
	n := min(w.plan.drawSize(rng), mostMoved)
	if to.region == nil || n == 0 {
		return nil
	}
	at, ok := to.reserve(rng, n)
	if !ok {
		return nil
	}
	w.totals.Puts++
	buf := w.bufs.take(n)
	copy(buf, cut(rng.Uint64(), 0, n))
	ctx, cancel := lf.deadline(rng)
	defer cancel()
	defer lf.begun(&move{"PUT", to.owner, n})()
	err := lf.putAt(ctx, &to, at.from, buf)
	lf.judgeMove(ctx, "PUT", &to, n, err)
	if err == nil && !to.wrong && !to.closed && !to.hasEnded() && !to.owner.ended {
		if err := to.written(at, buf); err != nil {
			w.l.violate("PUT of %d B by %s to %s at %v succeeded, but %v", n, lf.name, to.owner.name, lf.now(), err)
		}
	}
	w.bufs.put(buf)
	return nil
}

// get GETs a part of a life's region and compares it with the expected contents.
func (lf *life) get(rng *rand.Rand) error {
	w := lf.w
	from := w.target(rng)
	n := min(w.plan.drawSize(rng), mostMoved)
	if from.region == nil || n == 0 {
		return nil
	}
	w.totals.Gets++
	buf := w.bufs.take(n)
	at := rng.IntN(readBytes - n)
	ctx, cancel := lf.deadline(rng)
	defer cancel()
	defer lf.begun(&move{"GET", from.owner, n})()
	err := lf.getAt(ctx, &from, at, buf)
	lf.judgeMove(ctx, "GET", &from, n, err)
	if err == nil && !from.wrong && !from.closed {
		if i := mismatch(buf, cut(from.base, at, at+n)); i < n {
			w.l.violate("GET of %d B by %s from %s at %v is wrong from byte %d on", n, lf.name, from.owner.name,
				lf.now(), i)
		}
	}
	w.bufs.put(buf)
	return nil
}

// judgeMove compares the end of a PUT or GET with its permitted outcomes.
func (lf *life) judgeMove(ctx context.Context, what string, to *target, n int, err error) {
	w, peer := lf.w, to.owner.name
	lf.note(&w.totals, err)
	switch o := outcomeOf(ctx, err); {
	case o == succeeded && to.wrong:
		w.l.violate("%s of %d B by %s at %s with a wrong key succeeded", what, n, lf.name, peer)
	case o == succeeded && to.closed:
		w.l.violate("%s of %d B by %s at a region of %s succeeded after the region's end", what, n, lf.name, peer)
	case o == failed && !to.wrong && !to.closed && !to.hasEnded() && !w.excused(lf, peer):
		w.l.violate("%s of %d B by %s at %s failed at %v without a cause: %v", what, n, lf.name, peer, lf.now(), err)
	}
}

// receive is a receiving function.
func (lf *life) receive(rng *rand.Rand) error {
	w := lf.w
	for w.phase < settle && !lf.ended {
		if w.phase == load && rng.Float64() < w.plan.lazy {
			lf.pause(rng, 10*time.Millisecond)
		}
		receive := lf.receiveOne
		if rng.IntN(10) == 0 {
			receive = lf.receiveMany
		}
		if err := receive(rng); err != nil {
			return err
		}
	}
	return nil
}

func (lf *life) receiveOne(rng *rand.Rand) error {
	w := lf.w
	r := lf.wish(rng)
	size := MaxMessage
	if rng.IntN(16) == 0 {
		size = idBytes + w.plan.drawSize(rng)
	}
	buf := w.bufs.take(min(size, MaxMessage))
	patience := time.Duration((0.1 + rng.ExpFloat64()) * float64(20*time.Millisecond))
	if w.phase == drain {
		patience = 200 * time.Millisecond
	}
	ctx, cancel := lf.proc.Runtime().WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := lf.receiveBy(ctx, rng, &r, buf)
	defer func() { w.bufs.put(buf[:got.n]) }() // only these bytes are read
	if err == nil {
		w.lastCame = lf.now()
		if !byHostile(got.from) {
			w.totals.Delivered++
			lf.catchUp()
			w.l.deliver(lf, r, arrival{got.from, got.tag, got.full, buf[:got.n], len(buf), !w.plan.calm()})
			if e := lf.answer(&got.msg, buf[:got.n]); e != nil {
				return e
			}
		}
	}
	// A receive that has been matched waits for its message, or for the end of its sender.
	lf.inTime(ctx, &r, err, answerTime+2*w.plan.unreachableAfter)
	if err != nil && outcomeOf(ctx, err) == failed && !(r.from != "" && w.excused(lf, r.from)) && !lf.ended {
		w.l.violate("%v of %s failed at %v without a cause: %v", &r, lf.name, lf.now(), err)
	}
	return lf.excuse(err)
}

// receiveBy receives by one of several calls.
func (lf *life) receiveBy(ctx context.Context, rng *rand.Rand, r *receive, buf []byte) (got, error) {
	if lf.w.plan.hooks.Pool && rng.IntN(2) == 0 {
		defer lf.begun(r)()
		return lf.receiveWaiting(ctx, r, buf)
	}
	op, err := lf.startReceive(r, buf)
	if err != nil {
		return got{}, err
	}
	defer lf.begun(r)()
	return op.wait(ctx)
}

// wish draws the criteria of a receive.
func (lf *life) wish(rng *rand.Rand) receive {
	w := lf.w
	r := receive{anyTag: true}
	if w.phase != load {
		return r
	}
	if rng.Float64() < w.plan.named {
		r.from = pick(rng, w.names...)
	}
	if rng.Float64() < w.plan.tagged {
		r.anyTag, r.tag = false, rng.Uint64N(tagClasses)
	}
	return r
}

// excuse returns errEnded if an error means that the function cannot continue, and nil otherwise.
func (lf *life) excuse(err error) error {
	if isNICGone(err) {
		return errEnded
	}
	return nil
}

// note counts the outcome of an operation.
func (lf *life) note(t *Totals, err error) {
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		t.Cancelled++
	default:
		t.Failed++
	}
}

// outcomeOf returns the outcome of an operation from its error.
func outcomeOf(ctx context.Context, err error) outcome {
	switch {
	case err == nil:
		return succeeded
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return cancelled
	}
	return failed
}
