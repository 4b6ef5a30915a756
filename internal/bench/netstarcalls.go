package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/weftnet/weft"
)

// CallCounts counts the system calls of two processes that are attached to one daemon. The
// processes count them themselves.
type CallCounts struct {
	Messages int64   `json:"messages"`
	Burst    int     `json:"burst"` // messages sent without a rest between them
	Output   float64 `json:"output_calls_per_message"`
	PerBurst float64 `json:"output_calls_per_burst"`
	Most     uint64  `json:"most_output_calls_of_a_burst"`
	Input    float64 `json:"input_calls_per_message"`
	Kicks    uint64  `json:"kicks"` // of the sender, since it was attached: a tracer sees as many
	// of the receiver, since it was attached: to post receives while the NIC rests
	TakenKick uint64 `json:"receive_kicks"`
	// from the first send of a burst until its last message has arrived
	P50 int64 `json:"p50_ns"`
	// of that, the time of the sender's calls, as the mean of each burst
	CallP50 int64 `json:"send_p50_ns"`
}

const (
	callBurst = 32                    // messages of a burst; a process has more contexts
	callSize  = 64                    // bytes
	atRest    = 20 * time.Millisecond // an idle NIC sleeps after this time
	inABurst  = 10 * time.Second      // bounds the time of a burst on any machine
)

// callWays are the ways in which messages are sent and received.
var callWays = []struct {
	how   string
	burst int
	rest  time.Duration // before each burst
	poll  bool          // the receiver polls; otherwise it sleeps
}{
	{"single, receiver polls", 1, atRest, true},
	{"single, receiver sleeps", 1, atRest, false},
	{"burst, receiver polls", callBurst, atRest, true},
	{"NIC busy, receiver polls", callBurst, 0, true},
}

// countCalls counts the system calls of attached processes (NETSTAR-20…22).
func countCalls(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	m, err := newCallMeter(ctx, &down, o.Self, o.Sealing)
	if err != nil {
		return err
	}
	for _, w := range callWays {
		c, err := m.measure(ctx, o.Time, w.burst, w.rest, w.poll)
		if err != nil {
			return fmt.Errorf("%s: %w", w.how, err)
		}
		if err := out(NetstarRow{How: w.how, Deployment: DeployedShared, Size: callSize, Calls: c}); err != nil {
			return err
		}
	}
	return nil
}

// callMeter has two processes that are attached to one daemon.
type callMeter struct {
	from, to *weft.Process
	sends    [callBurst]weft.Op
	receives [callBurst]weft.Op
	data     [callSize]byte            // contents of each message
	buffers  [callBurst][callSize]byte // of the receives
}

func newCallMeter(ctx context.Context, u *undo, self string, sealing Sealing) (*callMeter, error) {
	d, err := u.startDaemon(ctx, place{self: self, listen: "127.0.0.1:0", sealing: sealing})
	if err != nil {
		return nil, err
	}
	m := new(callMeter)
	for _, p := range []struct {
		at   **weft.Process
		name weft.Name
	}{{&m.from, ClientName}, {&m.to, ServerName}} {
		if *p.at, err = u.attach(ctx, d.socket, p.name); err != nil {
			return nil, err
		}
	}
	_, err = m.from.WaitName(ctx, ServerName)
	return m, err
}

// measure sends bursts for the time d, at least three.
func (m *callMeter) measure(
	ctx context.Context, d time.Duration, burst int, rest time.Duration, poll bool,
) (*CallCounts, error) {
	c := &CallCounts{Burst: burst}
	var took, calls []int64
	var output, input uint64
	for begin, bursts := time.Now(), 0; bursts < 3 || time.Since(begin) < d; bursts++ {
		one, err := m.burst(ctx, burst, rest, poll)
		if err != nil {
			return nil, err
		}
		c.Messages += int64(burst)
		output, input = output+one.output, input+one.input
		c.Most = max(c.Most, one.output)
		took, calls = append(took, one.took.Nanoseconds()), append(calls, one.calls.Nanoseconds()/int64(burst))
	}
	c.Output = float64(output) / float64(c.Messages)
	c.PerBurst = c.Output * float64(burst)
	c.Input = float64(input) / float64(c.Messages)
	c.Kicks, c.TakenKick = m.from.Stats().Kicks, m.to.Stats().Kicks
	c.P50, c.CallP50 = median(took), median(calls)
	return c, nil
}

// aBurst is the result of one burst.
type aBurst struct {
	output, input uint64 // system calls of the sender, and of the receiver
	took, calls   time.Duration
}

// burst sends n messages to posted receives. The cost of posting the receives is not included:
// if the NIC rests, the first receive would be a kick, as the first send is.
func (m *callMeter) burst(ctx context.Context, n int, rest time.Duration, poll bool) (b aBurst, err error) {
	for i := range n {
		if err := m.to.StartRecv(&m.receives[i], ClientName, tagData, m.buffers[i][:]); err != nil {
			return b, err
		}
	}
	if rest > 0 {
		if err := sleep(ctx, rest); err != nil {
			return b, err
		}
	}
	from, to := m.from.Stats(), m.to.Stats()
	taken := make(chan error, 1)
	if !poll {
		go func() { taken <- m.take(ctx, n) }()
		if err := sleep(ctx, rest); err != nil { // until it sleeps
			return b, err
		}
	}
	begin := time.Now()
	for i := range n {
		if err := m.from.Peer(ServerName).StartSend(&m.sends[i], tagData, m.data[:]); err != nil {
			return b, err
		}
	}
	b.calls = time.Since(begin)
	if poll {
		err = spin(ctx, m.receives[:n])
	} else {
		err = <-taken
	}
	b.took = time.Since(begin)
	if err = errors.Join(err, spin(ctx, m.sends[:n])); err != nil {
		return b, err
	}
	b.output = m.from.Stats().Kicks - from.Kicks + m.from.Stats().Wakes - from.Wakes
	b.input = m.to.Stats().Kicks - to.Kicks + m.to.Stats().Wakes - to.Wakes
	return b, nil
}

// take waits for messages, asleep.
func (m *callMeter) take(ctx context.Context, n int) error {
	for i := range n {
		if _, err := m.receives[i].Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// spin polls operations until all are done. It makes no system call.
func spin(ctx context.Context, ops []weft.Op) error {
	end := time.Now().Add(inABurst)
	for i := range ops {
		for {
			_, done, err := ops[i].Test()
			if done || err != nil {
				if err != nil {
					return err
				}
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("bench: a message has not come for %v", inABurst)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			runtime.Gosched()
		}
	}
	return nil
}
