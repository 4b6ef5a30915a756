package launch

import (
	"context"
	"sync"
	"syscall"

	"github.com/weftnet/weft"
)

// The output streams of a rank.
const (
	Stdout = 1
	Stderr = 2
)

// Console is the source of a job's input and the destination of its output. Run calls Output from
// one goroutine, Input from another one, and Note from several, one at a time.
type Console interface {
	// Output writes the output of a rank: whole lines, except in an unbuffered job and for an
	// incomplete line. While Output waits, the ranks that write wait too. After an error, Run
	// ends the job as a shell ends a writer whose reader is gone.
	Output(rank, stream int, lines []byte) error

	// Input returns the next piece of input: at most one line of a terminal, and at most 64 KiB.
	// Run calls it only when every reading rank has read its input. The error is io.EOF at the
	// end.
	Input(ctx context.Context) (piece []byte, err error)

	// Note reports an event. It must not wait.
	Note(Note)
}

// Control passes the user's signals to a running job. Any goroutine may use it.
type Control struct {
	gate *weft.Gate

	mu      sync.Mutex
	signals []syscall.Signal
	end     *ending
}

// ending is a wish to end a job.
type ending struct {
	status int
	cause  string
	now    bool // without grace
}

// maxSignals bounds the signals that wait. Further signals are lost, as the kernel loses a signal
// that is already pending.
const maxSignals = 64

// NewControl returns the control of a job whose launcher has the given runtime.
func NewControl(r weft.Runtime) *Control { return &Control{gate: r.NewGate()} }

// Signal sends a signal to every rank.
func (c *Control) Signal(s syscall.Signal) {
	c.mu.Lock()
	if len(c.signals) < maxSignals {
		c.signals = append(c.signals, s)
	}
	c.mu.Unlock()
	c.gate.Open()
}

// End ends the job: each rank gets TERM, and after the grace KILL. The job gets this status and
// cause, unless a rank has failed before.
func (c *Control) End(status int, cause string) { c.set(ending{status: status, cause: cause}) }

// Kill ends the job like End, but without a grace. It also shortens the grace of a job that already
// ends.
func (c *Control) Kill(status int, cause string) { c.set(ending{status, cause, true}) }

func (c *Control) set(e ending) {
	c.mu.Lock()
	if c.end == nil || !c.end.now {
		c.end = &e
	}
	c.mu.Unlock()
	c.gate.Open()
}

// next waits for signals or for the wish to end, and returns and clears both.
func (c *Control) next(ctx context.Context) ([]syscall.Signal, *ending, error) {
	for {
		c.mu.Lock()
		signals, end := c.signals, c.end
		c.signals, c.end = nil, nil
		c.mu.Unlock()
		if len(signals) > 0 || end != nil {
			return signals, end, nil
		}
		if err := c.gate.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}
