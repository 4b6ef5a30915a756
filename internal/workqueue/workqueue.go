// Package workqueue is a library on *weft.Process, as others may write one: a queue of jobs, and
// workers that do them. It lives on a port of the application's process, and asks the process for
// time, goroutines and events, so it runs on every kind of process as it is.
//
//	Queue.Do ──► a worker that is not known to be down ──Call──► Serve: the job's function, once for each id
//	    ▲                │ no answer in time, or it has gone
//	    └── after a pause, the next ◄──┘
//
// A job is done at least once. A worker that is asked again for a job that it has done answers what
// it answered before.
package workqueue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftnet/weft"
)

// Port is where queues and workers meet.
const Port = 700

// jobTag is that of jobs.
const jobTag weft.Tag = 1

// idBytes stand before a job: its id.
const idBytes = 8

// Config is how patient a queue is. All fields must be set.
type Config struct {
	Workers []weft.Name
	Attempt time.Duration // that one worker has for an answer
	Pause   time.Duration // before a job is tried again
	Shun    time.Duration // for which a worker is left out that has gone, or was silent
	Answer  int           // most bytes of one
}

// Queue gives jobs to workers. Any number of goroutines may use it at once.
type Queue struct {
	cfg    Config
	p      *weft.Process
	port   *weft.Port
	events *weft.Watcher
	first  uint64 // of the ids: those of another life of the process are others

	mu     sync.Mutex
	jobs   uint64
	turn   int
	shun   []time.Time // by worker: until then
	at     []weft.Address
	counts Counts
}

// Counts is what a queue has met with.
type Counts struct{ Jobs, Retries, Events uint64 }

// Counts returns what the queue has met with so far.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

// New makes the queue of a process. A process has one.
func New(p *weft.Process, cfg Config) (*Queue, error) {
	if len(cfg.Workers) == 0 || cfg.Attempt <= 0 || cfg.Pause <= 0 || cfg.Shun <= 0 || cfg.Answer < 0 {
		return nil, fmt.Errorf("workqueue: %+v; expected workers, and times above 0", cfg)
	}
	o, err := p.Port(Port)
	if err != nil {
		return nil, fmt.Errorf("workqueue: %w", err)
	}
	q := &Queue{cfg: cfg, p: p, port: o, events: p.Watch(), shun: make([]time.Time, len(cfg.Workers)), at: make([]weft.Address, len(cfg.Workers))}
	q.first = uint64(p.Address().Generation) << 32
	p.Runtime().Go(q.watch)
	return q, nil
}

// Close ends the queue. Jobs under way must have ended.
func (q *Queue) Close() error {
	q.events.Close()
	return q.port.Close()
}

// watch shuns workers that are said to have gone, until it is closed, or its process.
func (q *Queue) watch() {
	for {
		e, err := q.events.Next(context.Background())
		if err != nil {
			return
		}
		q.mu.Lock()
		q.counts.Events++
		for i, a := range q.at {
			ofNIC := e.Addr.Slot == 0
			if a.NIC == e.Addr.NIC && (ofNIC || a == e.Addr) {
				q.shun[i] = q.p.Runtime().Now().Add(q.cfg.Shun)
			}
		}
		q.mu.Unlock()
	}
}

// Do has a worker do a job, and returns its answer. It tries until ctx ends.
func (q *Queue) Do(ctx context.Context, job []byte) (answer []byte, err error) {
	request := make([]byte, idBytes, idBytes+len(job))
	q.mu.Lock()
	q.jobs++
	q.counts.Jobs++
	binary.LittleEndian.PutUint64(request, q.first+q.jobs)
	q.mu.Unlock()
	request = append(request, job...)
	buf := make([]byte, q.cfg.Answer)
	for {
		i := q.pick()
		within, cancel := q.p.Runtime().WithTimeout(ctx, q.cfg.Attempt)
		m, err := q.port.Peer(q.cfg.Workers[i]).Call(within, jobTag, request, buf)
		cancel()
		if err == nil {
			q.answered(i, m.Addr)
			return buf[:m.Len], nil
		}
		if ctx.Err() != nil || !again(err) {
			return nil, fmt.Errorf("workqueue: job of %d bytes: %w", len(job), err)
		}
		q.failed(i)
		if err := q.p.Runtime().Sleep(ctx, q.cfg.Pause); err != nil {
			return nil, fmt.Errorf("workqueue: job of %d bytes: %w", len(job), err)
		}
	}
}

// again reports whether another worker may do better.
func again(err error) bool {
	for _, e := range []error{context.DeadlineExceeded, weft.ErrUnreachable, weft.ErrProcessGone, weft.ErrNameUnknown, weft.ErrStaleGeneration, weft.ErrQueueFull, weft.ErrNoMemory} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pick chooses a worker: in turn, those that are shunned last.
func (q *Queue) pick() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, now := len(q.shun), q.p.Runtime().Now()
	best := q.turn % n
	for k := range n {
		if i := (q.turn + k) % n; !q.shun[i].After(now) {
			best = i
			break
		}
	}
	q.turn++
	return best
}

func (q *Queue) answered(i int, at weft.Address) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at[i], q.shun[i] = at, time.Time{}
}

func (q *Queue) failed(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.Retries++
	q.shun[i] = q.p.Runtime().Now().Add(q.cfg.Shun)
}
