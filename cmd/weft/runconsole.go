package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/weftnet/weft/internal/launch"
)

// A sink receives the output of ranks. Only the launcher's receiving goroutine calls output.
type sink interface {
	output(rank, stream int, b []byte) error
	ended(rank int) error // rank writes no more
	close() error
}

// console is the terminal of a job: the destination of the ranks' output, and the source of
// their input.
type console struct {
	sink sink
	in   *runInput
	note func(launch.Note) // must not wait
	lost func(error)       // called once if the output cannot be written

	events *eventQueue // of ends and notes, for callbacks that may wait
	once   sync.Once
}

// Output writes lines of a rank. While it waits for the reader of weft's output, the ranks wait
// too.
func (c *console) Output(rank, stream int, lines []byte) error {
	err := c.sink.output(rank, stream, lines)
	if err != nil {
		c.fail(err)
	}
	return err
}

func (c *console) fail(err error) { c.once.Do(func() { c.lost(err) }) }

// Note takes an event. The sink learns of ends through the queue, because its writer may wait.
func (c *console) Note(n launch.Note) {
	if n.Kind == launch.NoteRank {
		c.events.add(func() {
			if err := c.sink.ended(n.Rank); err != nil {
				c.fail(err)
			}
		})
	}
	c.note(n)
}

// close writes what is held, after the last event.
func (c *console) close() error {
	c.events.close()
	return c.sink.close()
}

// eventQueue calls functions one after the other, in its own goroutine.
type eventQueue struct {
	mu     sync.Mutex
	queue  []func()
	busy   bool
	closed sync.WaitGroup
}

func (q *eventQueue) add(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, f)
	if !q.busy {
		q.busy = true
		q.closed.Go(q.run)
	}
}

func (q *eventQueue) run() {
	for {
		q.mu.Lock()
		all := q.queue
		q.queue = nil
		q.busy = len(all) > 0
		q.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, f := range all {
			f()
		}
	}
}

// close waits until every function has been called.
func (q *eventQueue) close() { q.closed.Wait() }

// wholeWriter writes everything, to files in any mode: another process with the same terminal
// may have made it non-blocking.
type wholeWriter struct{ w io.Writer }

func (w wholeWriter) Write(b []byte) (n int, err error) {
	for {
		k, err := w.w.Write(b[n:])
		n += k
		if !errors.Is(err, syscall.EAGAIN) {
			return n, err
		}
		if err := waitWritable(w.w); err != nil {
			return n, err
		}
	}
}

// rawSink passes bytes on as they come, for a job of one rank.
type rawSink struct{ out, err io.Writer }

func (s *rawSink) output(_, stream int, b []byte) error {
	w := s.out
	if stream == launch.Stderr {
		w = s.err
	}
	_, err := w.Write(b)
	return err
}

func (s *rawSink) ended(int) error { return nil }
func (s *rawSink) close() error    { return nil }

// jsonSink writes an object for each piece of output.
type jsonSink struct{ events *jsonEvents }

// jsonEvents writes objects to one stream, one per line.
type jsonEvents struct {
	mu sync.Mutex
	e  *json.Encoder
	// written before all others, unless the job is refused; nil: it is written
	placed *jobEvent
}

func newJSONEvents(w io.Writer) *jsonEvents {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &jsonEvents{e: e}
}

// print writes an object of a job whose ranks start.
func (j *jsonEvents) print(v any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.place(); err != nil {
		return err
	}
	return j.e.Encode(v)
}

// begin writes the placement, unless print has already written it with another object.
func (j *jsonEvents) begin() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.place()
}

func (j *jsonEvents) place() error {
	placed := j.placed
	if j.placed = nil; placed == nil {
		return nil
	}
	return j.e.Encode(placed)
}

// unplaced discards the placement of a job of which no rank has started.
func (j *jsonEvents) unplaced() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.placed = nil
}

// outputEvent is the JSON form of a rank's output. Bytes replaces Text if the output is not
// UTF-8.
type outputEvent struct {
	Event  string `json:"event"` // output
	Rank   int    `json:"rank"`
	Stream string `json:"stream"`
	Text   string `json:"text,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"`
}

func (s *jsonSink) output(rank, stream int, b []byte) error {
	e := outputEvent{Event: "output", Rank: rank, Stream: streamText(stream)}
	if text := string(b); string(bytes.ToValidUTF8(b, nil)) == text {
		e.Text = text
	} else {
		e.Bytes = b
	}
	return s.events.print(e)
}

func (s *jsonSink) ended(int) error { return nil }
func (s *jsonSink) close() error    { return nil }

func streamText(stream int) string {
	if stream == launch.Stderr {
		return "stderr"
	}
	return "stdout"
}

// showAfter is the silence of all ranks after which an incomplete line is shown.
const showAfter = 100 * time.Millisecond
