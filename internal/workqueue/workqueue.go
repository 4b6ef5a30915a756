// Package workqueue is a library on *weft.Process, such as others may write: a queue of jobs, and
// workers that do them. It uses a port of the application's process, and takes time, goroutines
// and events from the process. So it runs unchanged on every kind of process.
//
//	Queue.Do ──► a worker not known to be down ──Call──► Serve: the job's function, once per id
//	    ▲                │ no answer in time, or the worker has ended
//	    └── after a pause, the next ◄──┘
//
// A job is done at least once. If a worker is asked again for a job that it has done, it repeats
// its answer.
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

// Port is the port of queues and workers.
const Port = 700

// jobTag is the tag of jobs.
const jobTag weft.Tag = 1

// idBytes is the length of the id before a job.
const idBytes = 8

// Config holds the times and limits of a queue. All fields must be set.
type Config struct {
	Workers []weft.Name
	Attempt time.Duration // for the answer of one worker
	Pause   time.Duration // before the next attempt of a job
	Shun    time.Duration // time without jobs for a worker that has ended or was silent
	Answer  int           // most bytes of an answer
}

// Queue gives jobs to workers. Any number of goroutines may use it concurrently.
type Queue struct {
	cfg    Config
	p      *weft.Process
	port   *weft.Port
	events *weft.Watcher
	first  uint64 // first id; another life of the process has other ids

	mu     sync.Mutex
	jobs   uint64
	turn   int
	shun   []time.Time // by worker: end of its time without jobs
	at     []weft.Address
	counts Counts
}

// Counts counts the events of a queue.
type Counts struct{ Jobs, Retries, Events uint64 }

// Counts returns the queue's counts so far.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts
}

// New returns the queue of a process. A process has one.
func New(p *weft.Process, cfg Config) (*Queue, error) {
	if len(cfg.Workers) == 0 || cfg.Attempt <= 0 || cfg.Pause <= 0 || cfg.Shun <= 0 || cfg.Answer < 0 {
		return nil, fmt.Errorf("workqueue: %+v; expected workers, and times above 0", cfg)
	}
	o, err := p.Port(Port)
	if err != nil {
		return nil, fmt.Errorf("workqueue: %w", err)
	}
	q := &Queue{cfg: cfg, p: p, port: o, events: p.Watch(), shun: make([]time.Time, len(cfg.Workers)),
		at: make([]weft.Address, len(cfg.Workers))}
	q.first = uint64(p.Address().Generation) << 32
	p.Runtime().Go(q.watch)
	return q, nil
}

// Close ends the queue. All jobs must have ended.
func (q *Queue) Close() error {
	q.events.Close()
	return q.port.Close()
}

// watch shuns workers that are reported as ended, until the queue or its process ends.
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

// Do sends a job to a worker, and returns the worker's answer. It tries until ctx ends.
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

// again reports whether another worker may succeed.
func again(err error) bool {
	for _, e := range []error{context.DeadlineExceeded, weft.ErrUnreachable, weft.ErrProcessGone, weft.ErrNameUnknown,
		weft.ErrStaleGeneration, weft.ErrQueueFull, weft.ErrNoMemory} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pick chooses a worker: in turn, and shunned workers last.
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
