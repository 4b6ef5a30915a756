package stream_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// These tests compare streams with another implementation of net.Conn: the kernel's TCP over
// loopback. A seed determines scripts of calls, and each script runs over both. The calls must
// return the same, as errors.Is, net.Error and *net.OpError see it.
//
//	seed ──► script ──► TCP                        ──► outcomes ──┐
//	            ├─────► streams, embedded NICs     ──► outcomes ──┤ the same, line by line
//	            └─────► streams, simulator         ──► outcomes ──┘
//
// If TCP's outcome is a race, the script leaves out the call, or the log has one word for all
// outcomes that TCP permits:
//
//	broken    a Write to a peer that reads no more: EPIPE or ECONNRESET (the kernel reports
//	          ECONNRESET once, to the first call)
//	-1        bytes read before a reset: bytes that have not left the peer by then are lost, and
//	          their number depends on the kernel's buffer sizes
//	over      a Read after a reset that another call reported: the kernel reports the reset to
//	          one call, and an end to all later calls
//	any       CloseWrite of a connection whose two directions have ended: ENOTCONN as soon as the
//	          kernel has seen the last of it

var scriptSeed = flag.Uint64("script", 0, "run the script of this seed alone, against TCP")

// ground is the environment in which a script runs.
type ground interface {
	start(side int, f func()) (wait func()) // runs f at that end, concurrently with its caller
	sleep(side int, d time.Duration)        // pauses the code at that end
	now() time.Time
}

// twoEnds is the two ends of a connection: the end that dialled, and the accepted end.
type twoEnds [2]net.Conn

// outcomes runs a script, and returns the outcome of each call.
func outcomes(g ground, c twoEnds, acts []act) (log []string) {
	r := &player{ground: g, c: c}
	for _, a := range acts {
		log = append(log, a.name+": ") // shows how far a hanging script came
		log[len(log)-1] += a.do(r)
	}
	return log
}

// real uses the machine's clock and goroutines.
type real struct{}

func (real) start(_ int, f func()) (wait func()) {
	done := make(chan bool)
	go func() { defer close(done); f() }()
	return func() { <-done }
}
func (real) sleep(_ int, d time.Duration) { time.Sleep(d) }
func (real) now() time.Time               { return time.Now() }

// abort ends a connection so that its peer sees a reset.
func abort(c net.Conn) {
	if c, ok := c.(*stream.Conn); ok {
		c.Abort()
		return
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// overTCP runs a script over TCP.
func overTCP(t testing.TB, seed uint64, acts []act) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return within(t, seed, c, s, acts)
}

// within runs a script on the machine's clock. If the script hangs, within fails the test.
func within(t testing.TB, seed uint64, c, s net.Conn, acts []act) (log []string) {
	t.Helper()
	done := make(chan []string, 1)
	go func() { done <- outcomes(real{}, twoEnds{c, s}, acts) }()
	for range 2 {
		select {
		case log = <-done:
			c.Close()
			s.Close()
			return log
		case <-time.After(time.Minute):
			t.Errorf("the script of seed %d hangs over %s", seed, c.LocalAddr().Network())
			c.Close()
			s.Close()
		}
	}
	t.Fatal("it hangs also behind Close")
	return nil
}

// simulatedGround runs a script on processes of the simulator. Each process runs the functions
// that start at its end of the connection.
type simulatedGround struct {
	p    [2]*sim.Process
	jobs [2][]func()
	over bool
}

const simulatedStep = 100 * time.Microsecond

func (g *simulatedGround) start(side int, f func()) (wait func()) {
	done := false
	g.jobs[side] = append(g.jobs[side], func() { f(); done = true })
	return func() {
		for !done {
			g.sleep(0, simulatedStep)
		}
	}
}
func (g *simulatedGround) sleep(side int, d time.Duration) {
	g.p[side].Runtime().Sleep(context.Background(), d)
}
func (g *simulatedGround) now() time.Time { return g.p[0].Runtime().Now() }

// serve runs the functions that start at one end, until the script is over.
func (g *simulatedGround) serve(side int) {
	p := g.p[side]
	for !g.over {
		for _, job := range g.jobs[side] {
			p.Start("call", func(*sim.Process) error { job(); return nil })
		}
		g.jobs[side] = nil
		sleep(p, simulatedStep)
	}
}

// overSimulator runs a script over streams of simulated hosts.
func overSimulator(t testing.TB, seed uint64, acts []act) (log []string) {
	t.Helper()
	f := sim.New(sim.Config{Seed: seed, NICs: 2, Faults: sim.Faults{Loss: 0.03 * float64(seed%2), Reorder: 0.02 * float64(seed%2)}})
	g := new(simulatedGround)
	var c twoEnds
	f.Process(0, "a/0", func(p *sim.Process) error {
		l, err := stream.Listen(p.Weft(), "x")
		if err != nil {
			return err
		}
		if c[1], err = l.Accept(); err != nil {
			return err
		}
		g.p[1] = p
		g.serve(1)
		return nil
	})
	f.Process(1, "b/0", func(p *sim.Process) (err error) {
		g.p[0] = p
		if c[0], err = stream.Dial(context.Background(), p.Weft(), "a/0:x"); err != nil {
			return err
		}
		p.Start("serves", func(*sim.Process) error { g.serve(0); return nil })
		for c[1] == nil {
			sleep(p, simulatedStep)
		}
		log = outcomes(g, c, acts)
		g.over = true
		return nil
	})
	if err := f.Run(time.Hour); err != nil {
		t.Errorf("simulator: %v", err)
	}
	return log
}

// Each script is run over TCP and over streams.
func TestStreamsReturnWhatTCPReturns(t *testing.T) {
	few := 60
	switch {
	case *scriptSeed != 0:
		few = 1
	case *long:
		few = 1000
	case testing.Short():
		few = 15
	}
	a, b := pair(t, weft.Config{Link: weft.UDP("127.0.0.1:0")})
	l, err := stream.Listen(a, "script")
	if err != nil {
		t.Fatal(err)
	}
	for k := range few {
		seed := max(*scriptSeed, uint64(k)+1)
		acts := drawScript(seed)
		want := overTCP(t, seed, acts)
		c, s, err := joined(l, &stream.Dialer{Process: b})
		if err != nil {
			t.Fatal(err)
		}
		for ground, got := range map[string][]string{"embedded NICs": within(t, seed, c, s, acts), "the simulator": overSimulator(t, seed, acts)} {
			if diff := firstDifference(got, want); diff != "" {
				t.Errorf("seed %d over %s (-args -script %d):\n%s", seed, ground, seed, diff)
			}
		}
	}
}

// firstDifference returns a script up to the first outcome that differs from TCP's outcome.
func firstDifference(got, want []string) string {
	for i := range want {
		if i == len(got) || got[i] != want[i] {
			is := "nothing"
			if i < len(got) {
				is = got[i]
			}
			return fmt.Sprintf("  %s\n- %s\n+ %s", strings.Join(want[:i], "\n  "), want[i], is)
		}
	}
	return ""
}

// words describes an error by the errors that programs look for.
func words(err error) string {
	for _, known := range []error{net.ErrClosed, os.ErrDeadlineExceeded, syscall.EPIPE, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ENOTCONN, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

// shape describes an error by its words and by the results of type assertions. c may be nil.
func shape(c net.Conn, err error) string {
	if err == nil || err == io.EOF {
		return fmt.Sprint(err)
	}
	var e net.Error
	e, ok := err.(net.Error)
	if !ok {
		return fmt.Sprintf("%T: %v, which is no net.Error", err, err)
	}
	// Some programs still call Temporary.
	of := fmt.Sprintf("%s, timeout %v, temporary %v", words(err), e.Timeout(), e.(interface{ Temporary() bool }).Temporary())
	o, ok := err.(*net.OpError)
	if !ok {
		return of
	}
	if _, ok := o.Err.(*os.SyscallError); ok {
		of += ", a system call's"
	}
	return fmt.Sprintf("%s, %s from %s to %s", of, o.Op, which(c, o.Source), which(c, o.Addr))
}

// which says to which end of a connection an address belongs.
func which(c net.Conn, a net.Addr) string {
	switch {
	case a == nil:
		return "none"
	case c != nil && a.String() == c.LocalAddr().String():
		return "local"
	case c != nil && a.String() == c.RemoteAddr().String():
		return "remote"
	}
	return "another"
}
