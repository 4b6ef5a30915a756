package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// asChurner makes the test binary the application on one host of TestHostsThatChangeLoseNothing.
// Its value is a churner in JSON.
const asChurner = "WEFT_TEST_CHURNS"

const (
	churnApp     = "churn"
	churnLongest = 100 << 10 // bytes of a message; far above the credit
)

// churner is the application on one host. It sends numbered messages to the other hosts, and
// checks the messages that come. It never sends a number twice: if a send fails, the message was
// delivered once or not at all.
type churner struct {
	Host, Hosts int
	Socket      string
	Seed        uint64

	mu      sync.Mutex
	process *fabric.Process
	epoch   int // how many processes this host had before
	begun   int // processes
	report  churnReport
}

// churnReport is what one host has sent and received.
type churnReport struct {
	Sent     []int          // by host: how many numbers were used
	Failed   [][]int        // by host: the numbers of sends that failed
	Runs     [][]churnRun   // by host: messages received, in order
	Epoch    int            // of the current process
	Failures map[string]int // how often operations failed, by the error's text
	Wrong    []string       // broken promises
}

// churnRun is a run of consecutive numbers that one process received.
type churnRun struct{ First, Last, Epoch int }

// churns runs the application. It reads commands from standard input: "report" prints a report,
// "stop" ends the sends. The last send to each host is one that was delivered.
func churns(plan string) error {
	c := &churner{}
	if err := json.Unmarshal([]byte(plan), c); err != nil {
		return err
	}
	c.report = churnReport{Sent: make([]int, c.Hosts), Failed: make([][]int, c.Hosts), Runs: make([][]churnRun, c.Hosts), Failures: map[string]int{}}
	stop := make(chan struct{})
	var sending sync.WaitGroup
	go c.receive()
	for to := range c.Hosts {
		if to != c.Host {
			sending.Go(func() { c.send(to, stop) })
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "stop":
			close(stop)
			sending.Wait()
			fmt.Println("stopped")
		case "report":
			c.mu.Lock()
			text, err := json.Marshal(c.report)
			c.mu.Unlock()
			if err != nil {
				return err
			}
			fmt.Println(string(text))
		}
	}
	return nil
}

func churnName(host int) fabric.Name { return fabric.Name{App: churnApp, Index: uint32(host)} }

// churnMessage returns the length of a message and the seed of its bytes.
func (c *churner) churnMessage(from, to, number int) (size int, seed uint64) {
	seed = load.Seed(c.Seed, uint64(from), uint64(to), uint64(number))
	rng := rand.New(rand.NewPCG(seed, 0))
	if rng.IntN(10) > 0 {
		return rng.IntN(2 << 10), seed
	}
	return rng.IntN(churnLongest + 1), seed
}

// attached returns the process of this host. If the NIC of lost has ended, it attaches a new
// process.
func (c *churner) attached(lost *fabric.Process) *fabric.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.process == nil || c.process == lost {
		if lost != nil && c.process == lost {
			lost.Close()
			c.process = nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		p, err := fabric.Attach(ctx, fabric.AttachConfig{Socket: c.Socket, Name: churnName(c.Host)})
		cancel()
		if err == nil {
			c.process, c.epoch, c.report.Epoch = p, c.begun, c.begun
			c.begun++
			break
		}
		c.failed("attach", err, fabric.ErrNoDaemon, fabric.ErrNameTaken, fabric.ErrNICGone, fabric.ErrFull, fabric.ErrNameLost, fabric.ErrUnreachable)
		c.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		c.mu.Lock()
	}
	return c.process
}

// send sends messages in turn. After stop, it sends until one was delivered.
func (c *churner) send(to int, stop <-chan struct{}) {
	buf := make([]byte, churnLongest)
	for number, stopping := 0, false; ; number++ {
		select {
		case <-stop:
			stopping = true
		case <-time.After(2 * time.Millisecond):
		}
		size, seed := c.churnMessage(c.Host, to, number)
		load.Fill(buf[:size], seed)
		p := c.attached(nil)
		err := p.Peer(churnName(to)).SendDelivered(context.Background(), fabric.Tag(number), buf[:size])
		c.mu.Lock()
		c.report.Sent[to] = number + 1
		if err != nil {
			c.report.Failed[to] = append(c.report.Failed[to], number)
			c.failed("send", err, fabric.ErrUnreachable, fabric.ErrProcessGone, fabric.ErrNameUnknown, fabric.ErrStaleGeneration, fabric.ErrNICGone, fabric.ErrNoMemory, fabric.ErrNoReceiver)
			if !ofOwn(err) && !strings.Contains(err.Error(), churnName(to).String()) {
				c.report.Wrong = append(c.report.Wrong, fmt.Sprintf("the error of a send to host %d names no peer: %v", to, err))
			}
		}
		c.mu.Unlock()
		switch {
		case err == nil && stopping:
			return
		case ofOwn(err):
			c.attached(p)
		case err != nil:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// ofOwn reports whether an error is about this process's own NIC.
func ofOwn(err error) bool {
	return errors.Is(err, fabric.ErrNICGone) || errors.Is(err, fabric.ErrClosed) || errors.Is(err, fabric.ErrNameLost)
}

// failed counts a failed operation, and records an error that names none of the causes. The
// caller holds mu.
func (c *churner) failed(op string, err error, causes ...error) {
	text := regexp.MustCompile(`[0-9]+(:[0-9]+)*`).ReplaceAllString(op+": "+err.Error(), "N")
	c.report.Failures[text]++
	if ofOwn(err) {
		return
	}
	if !slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
		c.report.Wrong = append(c.report.Wrong, fmt.Sprintf("an error names no cause: %s: %v", op, err))
	}
}

// receive receives messages, and checks each byte.
func (c *churner) receive() {
	buf := make([]byte, churnLongest+1)
	for p := c.attached(nil); ; {
		m, err := p.Recv(context.Background(), fabric.AnyProcess, fabric.AnyTag, buf)
		c.mu.Lock()
		if err == nil {
			c.took(m, buf[:m.Len])
		} else {
			c.failed("receive", err, fabric.ErrUnreachable, fabric.ErrProcessGone)
		}
		c.mu.Unlock()
		if ofOwn(err) {
			p = c.attached(p)
		}
	}
}

// took checks one message. The caller holds mu.
func (c *churner) took(m fabric.Message, b []byte) {
	from, number := int(m.From.Index), int(m.Tag)
	wrong := func(format string, args ...any) {
		c.report.Wrong = append(c.report.Wrong, fmt.Sprintf("message %d from %v: ", number, m.From)+fmt.Sprintf(format, args...))
	}
	if m.From.App != churnApp || from >= c.Hosts || from == c.Host {
		wrong("no such host sends")
		return
	}
	size, seed := c.churnMessage(from, c.Host, number)
	if m.Full != size {
		wrong("it has %d bytes; expected %d", m.Full, size)
	} else if err := load.Check(b, seed); err != nil {
		wrong("%v", err)
	}
	runs := c.report.Runs[from]
	switch n := len(runs); {
	case n > 0 && number <= runs[n-1].Last:
		wrong("it comes behind message %d: doubled, or out of order", runs[n-1].Last)
	case n > 0 && number == runs[n-1].Last+1 && runs[n-1].Epoch == c.epoch:
		runs[n-1].Last = number
	default:
		c.report.Runs[from] = append(runs, churnRun{number, number, c.epoch})
	}
}

// holes returns the numbers of the messages that the first host sent without an error and that
// did not arrive at the second host. If a NIC ends, the messages that it held for its process
// are lost with it. Such messages are no holes.
func holes(from, to *churnReport, fromHost, toHost int) (missing []int) {
	failed := map[int]bool{}
	for _, n := range from.Failed[toHost] {
		failed[n] = true
	}
	next, epoch := 0, 0
	look := func(until, nextEpoch int) {
		for ; next < until && epoch == nextEpoch; next++ {
			if !failed[next] {
				missing = append(missing, next)
			}
		}
		next, epoch = until, nextEpoch
	}
	for _, run := range to.Runs[fromHost] {
		look(run.First, run.Epoch)
		next = run.Last + 1
	}
	look(from.Sent[toHost], to.Epoch)
	return missing
}

// allFailures adds up the failures of several hosts.
func allFailures(reports []churnReport) (lines []string) {
	sum := map[string]int{}
	for _, r := range reports {
		for text, n := range r.Failures {
			sum[text] += n
		}
	}
	for _, text := range slices.Sorted(maps.Keys(sum)) {
		lines = append(lines, fmt.Sprintf("%6d × %s", sum[text], text))
	}
	return lines
}
