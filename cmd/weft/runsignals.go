package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/launch"
)

// forwarded are the signals that weft run passes on to its ranks.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	syscall.SIGTSTP, syscall.SIGCONT,
}

// stopWithin is how long weft run waits for its ranks to stop before it stops itself.
const stopWithin = 500 * time.Millisecond

// jobControl is what a signal can do to a job: *launch.Control.
type jobControl interface {
	Signal(s syscall.Signal)
	End(status int, cause string)
}

// relay passes signals from the terminal and from other processes to the ranks.
type relay struct {
	control jobControl
	ranks   int    // of the job
	stop    func() // stops this process
	quit    func(status int)

	interrupts int
	ending     bool

	mu      sync.Mutex
	stopped map[int]bool // ranks that a signal has stopped
	left    int          // ranks that have not ended
	changed chan struct{}
}

func newRelay(control jobControl, ranks int) *relay {
	return &relay{control: control, ranks: ranks, stop: stopSelf, quit: os.Exit, stopped: make(map[int]bool),
		left: ranks, changed: make(chan struct{}, 1)}
}

// start forwards signals until the returned function is called.
func (r *relay) start() (done func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	if hangsUp() {
		signal.Notify(signals, syscall.SIGHUP)
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				r.take(s.(syscall.Signal))
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// take acts on a signal:
//
//	INT        the ranks get it; the second ends the job at once; after a third, weft run
//	           waits for nothing
//	TERM, HUP  the ranks get it, and the job ends within the grace; the second one ends weft run
//	TSTP       the ranks stop, then weft run does
//	others     the ranks get it
func (r *relay) take(s syscall.Signal) {
	switch s {
	case syscall.SIGINT:
		r.interrupt()
	case syscall.SIGTERM, syscall.SIGHUP:
		if r.ending && s == syscall.SIGTERM {
			r.quit(128 + int(s))
		}
		r.ending = true
		r.control.Signal(s)
		r.control.End(128+int(s), "ended by "+signalName(s))
	case syscall.SIGTSTP:
		r.suspend()
	default:
		r.control.Signal(s)
	}
}

func (r *relay) interrupt() {
	r.interrupts++
	switch r.interrupts {
	case 1:
		r.control.Signal(syscall.SIGINT)
	case 2:
		r.control.Signal(syscall.SIGKILL)
		r.control.End(128+int(syscall.SIGINT), "interrupted twice")
	default:
		r.quit(128 + int(syscall.SIGINT))
	}
}

// suspend stops the ranks and then this process. The SIGCONT that continues this process also
// continues the ranks. The kernel stops all threads of this process, but not at once.
func (r *relay) suspend() {
	r.control.Signal(syscall.SIGTSTP)
	timeout := time.After(stopWithin)
	for r.running() > 0 {
		select {
		case <-r.changed:
			continue
		case <-timeout:
		}
		break
	}
	r.stop()
}

// running counts the ranks that have neither stopped nor ended.
func (r *relay) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left - len(r.stopped)
}

// noted updates the counts after a note about ranks that stop, continue or end.
func (r *relay) noted(n launch.Note) {
	r.mu.Lock()
	switch n.Kind {
	case launch.NoteStopped:
		r.stopped[n.Rank] = true
	case launch.NoteResumed:
		delete(r.stopped, n.Rank)
	case launch.NoteRank:
		delete(r.stopped, n.Rank)
		r.left--
	case launch.NoteRestart: // all ranks run again
		clear(r.stopped)
		r.left = r.ranks
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// stopSelf stops this process, soon after it returns.
func stopSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// signalOf returns the signal with a number.
func signalOf(n int) syscall.Signal { return syscall.Signal(n) }

// signalName returns the name of a signal, such as SIGTERM, or else its number.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
