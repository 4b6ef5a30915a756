package ranks

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain runs a program of programs_linux_test.go if the first argument names one: the tests use
// their own binary as the ranks of a job.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], "program:"); ok {
			program(name, os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// argv is the command line of a program of this binary.
func argv(name string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, "program:" + name}, args...)
}

// patience bounds every wait for something that must happen, however busy the machine is.
const patience = time.Minute

// recorder records the reports of a Set.
type recorder struct {
	t *testing.T

	mu      sync.Mutex
	cond    *sync.Cond
	out     map[[2]int]*bytes.Buffer // by rank and stream
	calls   map[[2]int]int
	wants   map[int]int
	stopped map[int]bool
	exits   map[int]Exit
	atExit  map[int]string // stdout of a rank when its Ended came
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{
		t: t, out: make(map[[2]int]*bytes.Buffer), calls: make(map[[2]int]int), wants: make(map[int]int),
		stopped: make(map[int]bool), exits: make(map[int]Exit), atExit: make(map[int]string),
	}
	r.cond = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) output(rank, stream int, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := [2]int{rank, stream}
	if r.out[k] == nil {
		r.out[k] = new(bytes.Buffer)
	}
	r.out[k].Write(b)
	r.calls[k]++
	r.cond.Broadcast()
	return nil
}

func (r *recorder) want(rank int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants[rank]++
	r.cond.Broadcast()
}

func (r *recorder) state(rank int, stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped[rank] = stopped
	r.cond.Broadcast()
}

func (r *recorder) ended(e Exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.exits[e.Rank]; twice {
		r.t.Errorf("the end of rank %d was reported twice", e.Rank)
	}
	r.exits[e.Rank] = e
	r.atExit[e.Rank] = r.text(e.Rank, Stdout)
	r.cond.Broadcast()
}

// text returns the delivered bytes of a stream. The caller holds mu.
func (r *recorder) text(rank, stream int) string {
	if b := r.out[[2]int{rank, stream}]; b != nil {
		return b.String()
	}
	return ""
}

// await waits until ok returns true. It calls ok under mu.
func (r *recorder) await(what string, ok func() bool) {
	r.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		late = true
		r.cond.Broadcast()
	})
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !ok() {
		if late {
			r.t.Fatalf("no %s within %v", what, patience)
		}
		r.cond.Wait()
	}
}

// awaitText waits until the rank's stdout contains text.
func (r *recorder) awaitText(rank int, text string) {
	r.t.Helper()
	r.await(fmt.Sprintf("output %q of rank %d", text, rank), func() bool {
		return strings.Contains(r.text(rank, Stdout), text)
	})
}

// exit returns the end of a rank, once it is reported.
func (r *recorder) exit(rank int) Exit {
	r.t.Helper()
	r.await(fmt.Sprintf("end of rank %d", rank), func() bool { _, ok := r.exits[rank]; return ok })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exits[rank]
}

// writtenAtExit is what a rank that has ended had written to stdout when its end was reported.
func (r *recorder) writtenAtExit(rank int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.atExit[rank]
}

// config is a Config that reports to the recorder.
func (r *recorder) config(ranks int, argv ...string) Config {
	c := Config{
		Argv: argv, Env: os.Environ(), Dir: r.t.TempDir(),
		Output: r.output, Want: r.want, State: r.state, Ended: r.ended,
	}
	for i := range ranks {
		c.Ranks = append(c.Ranks, i)
	}
	return c
}

// start starts a job that ends with the test.
func (r *recorder) start(c Config) *Set {
	r.t.Helper()
	s, err := Start(c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { end(r.t, s) })
	return s
}

// end ends a job at once, and waits until nothing of it is left.
func end(t *testing.T, s *Set) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		left := s.End(0)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes survive SIGKILL: %+v", left)
		}
	}
	s.Wait()
	if left := descendants(os.Getpid()); len(left) > 0 {
		t.Errorf("processes are left: %+v", left)
	}
}

// awaitGone waits until a process is gone.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if p, ok := readProcess(pid); !ok || p.Ended() {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// variable returns the value of a variable in env output.
func variable(env, name string) string {
	for line := range strings.Lines(env) {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSuffix(v, "\n")
		}
	}
	return "(unset)"
}

func itoa(n int) string { return strconv.Itoa(n) }
