package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/together"
)

// FairCrew is one of the programs whose processes share a NIC: `weft bench fairness --child`. It says "ready" when all
// are attached, starts when it reads a line, says the rate of each process after the time, and goes on until its input
// ends, so that the others are measured under the same load.
type FairCrew struct {
	Socket    string
	Sink      bool // receives only
	First     int  // index of its first process
	Count     int
	Processes int // of all programs together
	Size      int
	Time      time.Duration
}

// tagFair is the tag of all messages.
const tagFair = tagData

func fairName(i int) weft.Name { return weft.Name{App: "weft-fair", Index: uint32(i)} }
func sinkName(i int) weft.Name { return weft.Name{App: "weft-sink", Index: uint32(i % sinks)} }

// fairMember is one process of a crew.
type fairMember struct {
	p       *weft.Process
	index   int
	out, in []byte       // registered memory, so that no program's own copying is what is measured
	bytes   atomic.Int64 // of messages sent and received
}

// Run is the whole program.
func (f FairCrew) Run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	members, err := f.attach(ctx, &down)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	if !f.Sink {
		if _, err := lines.ReadString('\n'); err != nil {
			return nil // the measurement was called off
		}
	}
	ctx = EndWithInput(ctx, lines)
	var told atomic.Bool
	err = together.Both(ctx, func(ctx context.Context) error { return f.work(ctx, members) },
		func(ctx context.Context) error {
			err := f.measure(ctx, members, out)
			told.Store(err == nil)
			return err
		})
	if ctx.Err() != nil || told.Load() { // other programs may end before this one hears that it should
		return nil
	}
	return err
}

// attach makes the processes, and waits until each knows its receivers.
func (f *FairCrew) attach(ctx context.Context, down *undo) (members []*fairMember, err error) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range f.Count {
		m := &fairMember{index: f.First + i}
		name := fairName(m.index)
		if f.Sink {
			name = sinkName(m.index)
		}
		if m.p, err = down.attach(wait, f.Socket, name); err != nil {
			return nil, err
		}
		members = append(members, m)
		if m.out, m.in, err = f.memory(m.p); err != nil {
			return nil, err
		}
		if !f.Sink {
			if _, err := m.p.WaitName(wait, sinkName(m.index)); err != nil {
				return nil, err
			}
		}
	}
	return members, nil
}

// memory is a message to send, and room for one to receive. All that a process sends is the same, and what it receives is
// not read, so one of each will do.
func (f *FairCrew) memory(p *weft.Process) (out, in []byte, err error) {
	r, err := p.Alloc(2 * f.Size)
	if err != nil {
		return nil, nil, err
	}
	return r.Bytes()[:f.Size], r.Bytes()[f.Size:], nil
}

// work has every process send and receive until ctx ends.
func (f *FairCrew) work(ctx context.Context, members []*fairMember) error {
	return together.Run(ctx, 3*len(members), func(ctx context.Context, i int) error {
		m := members[i/3]
		switch {
		case f.Sink && i%3 == 0:
			return m.drain(ctx, fairWindow*((f.Processes+sinks-1)/sinks))
		case f.Sink:
			return nil
		case i%3 == 0:
			return m.drain(ctx, 2*fairWindow)
		case i%3 == 1:
			return m.pour(ctx, sinkName(m.index))
		}
		return m.pour(ctx, fairName((m.index+1)%f.Processes))
	})
}

// pour sends one message after the other.
func (m *fairMember) pour(ctx context.Context, to weft.Name) error {
	return flow(ctx, fairWindow, func() (*weft.Op, error) { return m.p.StartSend(to, tagFair, m.out) }, func() { m.bytes.Add(int64(len(m.out))) })
}

// drain receives whatever comes, so many at a time.
func (m *fairMember) drain(ctx context.Context, window int) error {
	return flow(ctx, min(window, 32), func() (*weft.Op, error) { return m.p.StartRecv(weft.AnyProcess, tagFair, m.in) }, func() { m.bytes.Add(int64(len(m.in))) })
}

// measure says what each process did within the time.
func (f *FairCrew) measure(ctx context.Context, members []*fairMember, out io.Writer) error {
	if f.Sink {
		return nil
	}
	if err := sleep(ctx, warmUp(f.Time)); err != nil {
		return err
	}
	before := make([]int64, len(members))
	begin := time.Now()
	for i, m := range members {
		before[i] = m.bytes.Load()
	}
	if err := sleep(ctx, f.Time); err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	rates := make([]float64, len(members))
	for i, m := range members {
		rates[i] = float64(m.bytes.Load()-before[i]) / took
	}
	return json.NewEncoder(out).Encode(rates)
}
