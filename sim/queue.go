package sim

import "github.com/weftnet/weft/internal/clock"

// happening is an object that the scheduler calls: a frame arrives, a NIC has its turn, a task
// resumes, a timer fires. n is the number that the event was pushed with. Most objects recognize
// stale events by it.
type happening interface{ happen(n uint64) }

// event is one entry of the queue. The tie orders simultaneous events. It is drawn from the seed,
// so some seed produces each order.
type event struct {
	at   clock.Time
	tie  uint64
	n    uint64
	what happening
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.tie < o.tie
}

// queue is a binary heap of events, the earliest at index 0. It does not use container/heap, which
// would box every event in an interface.
//
//	     i
//	  ┌──┴──┐
//	2i+1   2i+2     no child is before its parent
type queue struct{ heap []event }

func (q *queue) len() int { return len(q.heap) }

func (q *queue) push(e event) {
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = e
}

// pop removes the earliest event of a queue that is not empty.
func (q *queue) pop() event {
	top := q.heap[0]
	end := len(q.heap) - 1
	last := q.heap[end]
	q.heap[end] = event{}
	q.heap = q.heap[:end]
	if end == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		if r := down + 1; r < end && q.heap[r].before(&q.heap[down]) {
			down = r
		}
		if !q.heap[down].before(&last) {
			break
		}
		q.heap[i] = q.heap[down]
		i = down
	}
	q.heap[i] = last
	return top
}
