package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// crewPlan is a program of processes that send, receive or answer. It prints its first NIC's
// address, or "ready" if a daemon serves its processes. Then it obeys these commands:
//
//	"go"      begin to send, to all that each process has to
//	"stop"    begin no more sends; wait for the oldest send of each process
//	"drop"    begin no more sends; wait for none, since other crews would slow the oldest down
//	"report"  nothing
//
// It answers each with a crewReport. The program ends with its input.
type crewPlan struct {
	// of the daemon that serves the processes; empty: each has an embedded NIC, by UDP on this
	// host
	Socket string
	Sealing
	Peer   string // address of a NIC that the embedded NICs know; empty: none
	App    string // the processes are App/First and those that follow
	First  int
	Count  int
	Size   int       // of a message, in bytes
	To     []crewTo  // each process sends to all of them
	Window int       // messages in flight to each receiver
	Takes  int       // receives that a process has posted
	Echo   *crewEcho // messages that a process sends back; nil: none
}

// crewTo is where process i sends: to App/(i+Step)%Of.
type crewTo struct {
	App      string
	Step, Of int
}

func (t crewTo) of(i int) weft.Name {
	return weft.Name{App: t.App, Index: uint32((i + t.Step) % t.Of)}
}

// crewEcho selects the messages that a process sends back, by sender and tag. Most is their
// largest length in bytes.
type crewEcho struct {
	From *crewTo // nil: any process
	Tag  weft.Tag
	Most int
}

// crewReport is the answer of a program to a command.
type crewReport struct {
	Bytes   []int64 // sent and received by each process
	Seconds float64 // for which they have sent
	Drops   uint64  // frames that found no room at the links of its embedded NICs
}

// tagLong is the tag of the messages that crews send and receive.
const tagLong weft.Tag = 200

// member is one process of a crew.
type member struct {
	p     *weft.Process
	index int
	// contents of all messages: each send has the same, and no received message is read
	out, in []byte
	bytes   atomic.Int64 // of messages sent and received
}

// theCrew is a running program of processes.
type theCrew struct {
	*crewPlan
	members []*member
	senders sync.WaitGroup
	seconds float64     // for which they have sent before begun
	begun   time.Time   // of the present sends
	over    atomic.Bool // they begin no more sends
	drop    func()      // cancels the sends in flight; nil: they do not send
	errs    []error     // of each sender
}

// run runs the whole program.
func (p *crewPlan) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	c := &theCrew{crewPlan: p}
	questions := bufio.NewReader(in)
	gathering, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := make(chan struct{})
	go func() { // up to the first question, the measurement may be called off
		defer close(asked)
		if _, err := questions.Peek(1); err != nil {
			cancel()
		}
	}()
	switch err := c.gather(gathering, &down); {
	case gathering.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	hello := "ready"
	if n := c.members[0].p.NIC(); n != nil {
		hello = n.Addr()
	}
	if _, err := fmt.Fprintln(out, hello); err != nil {
		return err
	}
	working, end := context.WithCancelCause(ctx)
	defer c.senders.Wait()
	defer end(nil)
	go func() {
		<-asked
		end(answerAll(questions, out, func(what string) (any, error) { return c.obey(working, what) }))
	}()
	err = load.Together(working, 2*p.Count, func(ctx context.Context, i int) error {
		switch m := c.members[i/2]; {
		case i%2 == 0 && p.Takes > 0:
			return m.drain(ctx, p.Takes)
		case i%2 == 1 && p.Echo != nil:
			return m.echo(ctx, p.Echo)
		}
		return nil
	})
	if err == nil {
		<-working.Done()
	}
	if working.Err() != nil {
		err = context.Cause(working)
	}
	// the measurement is over, or was called off
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// gather makes the processes, and waits until each knows its receivers of other applications.
func (c *theCrew) gather(ctx context.Context, down *undo) (err error) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var nodes []weft.Node
	if c.Peer != "" {
		nodes = []weft.Node{{Addr: c.Peer}}
	}
	out, in := make([]byte, c.Size), make([]byte, c.Size)
	for i := range c.Count {
		m := &member{index: c.First + i, out: out, in: in}
		name := weft.Name{App: c.App, Index: uint32(m.index)}
		if c.Socket != "" {
			m.p, err = down.attach(wait, c.Socket, name)
		} else {
			m.p, _, err = down.open(wait, place{deployment: DeployedEmbedded, name: name, listen: "127.0.0.1:0",
				nodes: nodes, sealing: c.Sealing})
		}
		if err != nil {
			return err
		}
		if c.Socket != "" && c.Size > 0 {
			// the daemon also maps it, since the copies of a program are not to be measured
			region, err := m.p.Alloc(2 * c.Size)
			if err != nil {
				return err
			}
			m.out, m.in = region.Bytes()[:c.Size], region.Bytes()[c.Size:]
		}
		for _, to := range c.To {
			if to.App == c.App { // it may be in a program that is started later
				continue
			}
			if _, err := m.p.WaitName(wait, to.of(m.index)); err != nil {
				return err
			}
		}
		c.members = append(c.members, m)
	}
	return nil
}

// obey obeys a command.
func (c *theCrew) obey(ctx context.Context, what string) (r crewReport, err error) {
	switch {
	case what == "go":
		c.start(ctx)
	case c.drop != nil && (what == "stop" || what == "drop"):
		c.seconds += time.Since(c.begun).Seconds()
		if c.over.Store(true); what == "drop" {
			c.drop()
		}
		c.senders.Wait()
		c.drop()
		c.drop, err = nil, errors.Join(c.errs...)
	}
	if r.Seconds = c.seconds; c.drop != nil {
		r.Seconds += time.Since(c.begun).Seconds()
	}
	for _, m := range c.members {
		r.Bytes = append(r.Bytes, m.bytes.Load())
		if n := m.p.NIC(); n != nil {
			r.Drops += n.Counters()["link_dropped_in"] + n.Counters()["link_dropped_out"]
		}
	}
	return r, err
}

// start starts the sends of every process.
func (c *theCrew) start(ctx context.Context) {
	ctx, c.drop = context.WithCancel(ctx)
	c.errs = make([]error, len(c.members)*len(c.To))
	c.over.Store(false)
	c.begun = time.Now()
	for i, m := range c.members {
		for k, to := range c.To {
			c.senders.Go(func() {
				if err := c.pour(ctx, m, to.of(m.index)); ctx.Err() == nil && !errors.Is(err, errOver) {
					c.errs[i*len(c.To)+k] = err
				}
			})
		}
	}
}

// errOver ends a sender that must begin no more sends.
var errOver = errors.New("bench: it is over")

// pour sends messages continuously.
func (c *theCrew) pour(ctx context.Context, m *member, to weft.Name) error {
	return flow(ctx, c.Window, func(op *weft.Op) error {
		if c.over.Load() {
			return errOver
		}
		return m.p.Peer(to).StartSend(op, tagLong, m.out)
	}, func() { m.bytes.Add(int64(len(m.out))) })
}

// drain receives messages of any process, with window receives in flight.
func (m *member) drain(ctx context.Context, window int) error {
	return flow(ctx, window, func(op *weft.Op) error {
		return m.p.StartRecv(op, weft.AnyProcess, tagLong, m.in)
	}, func() { m.bytes.Add(int64(len(m.in))) })
}

// echo sends messages back.
func (m *member) echo(ctx context.Context, e *crewEcho) error {
	from, buf := weft.AnyProcess, make([]byte, e.Most)
	if e.From != nil {
		from = e.From.of(m.index)
	}
	for {
		got, err := m.p.Recv(ctx, from, e.Tag, buf)
		if err == nil {
			err = m.p.Send(ctx, got.From, got.Tag, buf[:got.Len])
		}
		switch {
		case errors.Is(err, weft.ErrProcessGone), errors.Is(err, io.EOF): // the measurement is over
			return nil
		case err != nil:
			return err
		}
	}
}

// spread starts processes of a plan, spread over several programs. If there are fewer processes
// than programs, each is a program.
func (u *undo) spread(
	ctx context.Context, self, kind string, processes, programs int, p crewPlan,
) (crews []*crew, err error) {
	programs = min(programs, processes)
	for i := range programs {
		p.First = i * processes / programs
		p.Count = (i+1)*processes/programs - p.First
		c, _, err := u.startCrew(ctx, self, kind, p)
		if err != nil {
			return nil, err
		}
		crews = append(crews, c)
	}
	return crews, nil
}
