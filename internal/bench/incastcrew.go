package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/together"
)

// incastWindow is how many long messages each sender has under way.
const incastWindow = 2

// ReceiveIncast is the program of the receiver. It says its address, and what it has counted whenever it reads a line.
func ReceiveIncast(ctx context.Context, o IncastOptions, in io.Reader, out io.Writer) error {
	p, err := weft.Open(ctx, weft.Config{Name: incastReceiver, Link: weft.UDP("127.0.0.1:0")})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, p.NIC().Addr()); err != nil {
		return errors.Join(err, p.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	err = together.Run(ctx, 3, func(ctx context.Context, i int) error {
		switch i {
		case 0:
			return sink(ctx, p, make([]byte, o.Size), min(incastWindow*o.Senders, 48))
		case 1:
			return echoShort(ctx, p)
		}
		defer cancel()
		return eachLine(in, func(string) error {
			return json.NewEncoder(out).Encode(IncastReport{Drops: drops(p.NIC())})
		})
	})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, p.Close())
}

// drops is how many frames a NIC's link has lost for want of room.
func drops(n *weft.NIC) uint64 {
	c := n.Counters()
	return c["link_dropped_in"] + c["link_dropped_out"]
}

// sink receives long messages, all into one buffer: they are not read.
func sink(ctx context.Context, p *weft.Process, buf []byte, window int) error {
	return flow(ctx, window, func() (*weft.Op, error) { return p.StartRecv(weft.AnyProcess, tagLong, buf) }, func() {})
}

// echoShort sends short messages back.
func echoShort(ctx context.Context, p *weft.Process) error {
	buf := make([]byte, shortBytes)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, tagShort, buf)
		if err != nil {
			return err
		}
		if err := p.Send(ctx, m.From, tagShort, buf[:m.Len]); err != nil {
			return err
		}
	}
}

// eachLine calls f for every line until there are no more.
func eachLine(in io.Reader, f func(line string) error) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := f(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// SendIncast is the program of the senders. They begin when it reads "go", and end what they have under way when it
// reads "stop"; then it says what each has sent.
func SendIncast(ctx context.Context, o IncastOptions, to string, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	var procs []*weft.Process
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range o.Senders {
		p, err := weft.Open(ctx, weft.Config{Name: incastSender(i), Link: weft.UDP("127.0.0.1:0"), Nodes: []weft.Node{{Addr: to}}})
		if err != nil {
			return err
		}
		down.add(p.Close)
		procs = append(procs, p)
		if _, err := p.WaitName(wait, incastReceiver); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	r := IncastReport{Bytes: make([]int64, o.Senders)}
	var stop func() error
	err = eachLine(in, func(line string) error {
		if line == "go" {
			stop = startSenders(ctx, procs, make([]byte, o.Size), &r)
			return nil
		}
		if err := stop(); err != nil {
			return err
		}
		r.Drops = 0
		for _, p := range procs {
			r.Drops += drops(p.NIC())
		}
		return json.NewEncoder(out).Encode(r)
	})
	return err
}

// startSenders has every process send until stop is called, which waits for the ends, and adds up what each has sent.
func startSenders(ctx context.Context, procs []*weft.Process, data []byte, r *IncastReport) (stop func() error) {
	var over atomic.Bool
	var all sync.WaitGroup
	errs := make([]error, len(procs))
	begin := time.Now()
	for i, p := range procs {
		all.Go(func() {
			err := flow(ctx, incastWindow, func() (*weft.Op, error) {
				if over.Load() {
					return nil, errOver
				}
				return p.StartSend(incastReceiver, tagLong, data)
			}, func() { r.Bytes[i] += int64(len(data)) })
			if !errors.Is(err, errOver) {
				errs[i] = err
			}
		})
	}
	return func() error {
		over.Store(true)
		r.Seconds += time.Since(begin).Seconds()
		all.Wait()
		return errors.Join(errs...)
	}
}
