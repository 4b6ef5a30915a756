package processtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
)

var probes = []Case{
	{"a probe tells of what waits and leaves it", sendProbed, probe},
	{"a receive that allocates gets messages of any length in their order", sendAnyLength, receiveAnyLength},
	{"receives that allocate share messages, and none is lost", sendShared, receiveShared},
}

// probed holds lengths of messages for probes: in one frame, in several frames, and with
// permission.
var probed = []int{0, 30, 5000, 300_000}

func sendProbed(ctx context.Context, p *weft.Process, other weft.Name) error {
	for i, n := range probed {
		if _, err := p.Recv(ctx, other, 1, nil); err != nil {
			return err
		}
		if err := p.Runtime().Sleep(ctx, time.Millisecond); err != nil { // the probe waits first
			return err
		}
		if err := p.Send(ctx, other, weft.Tag(10+i), fill(i, n)); err != nil {
			return err
		}
	}
	if _, err := p.Peer(other).Call(ctx, 20, nil, nil); err != nil {
		return err
	}
	return finish(ctx, p, other)
}

func probe(ctx context.Context, p *weft.Process, other weft.Name) error {
	buf := make([]byte, 300_000)
	o, err := p.Port(3)
	if err != nil {
		return err
	}
	for i, n := range probed {
		if m, found, err := p.TryProbe(ctx, weft.AnyProcess, weft.AnyTag); found || err != nil {
			return fmt.Errorf("a probe where nothing waits: %+v, %v, %w", m, found, err)
		}
		within, cancel := p.Runtime().WithTimeout(ctx, time.Millisecond)
		_, err := p.Probe(within, other, weft.AnyTag)
		cancel()
		if err := refused("a probe whose time is up", err, context.DeadlineExceeded); err != nil {
			return err
		}
		if err := p.Send(ctx, other, 1); err != nil {
			return err
		}
		from := weft.AnyProcess
		if i%2 == 0 {
			from = other
		}
		for again := range 2 {
			m, err := p.Probe(ctx, from, weft.Tag(10+i))
			if err != nil || m.From != other || m.Tag != weft.Tag(10+i) || m.Full != n || m.Len != 0 || m.IsCall() {
				return fmt.Errorf("probe %d.%d: %+v, %w; expected %d bytes from %v", i, again, m, err, n, other)
			}
		}
		if m, found, err := p.TryProbe(ctx, other, weft.AnyTag); !found || err != nil || m.Full != n {
			return fmt.Errorf("a probe that does not wait: %+v, %v, %w", m, found, err)
		}
		for what, find := range map[string]func() (weft.Message, bool, error){
			"with another tag": func() (weft.Message, bool, error) { return p.TryProbe(ctx, other, 9) },
			"from another":     func() (weft.Message, bool, error) { return p.TryProbe(ctx, p.Name(), weft.AnyTag) },
			"on another port":  func() (weft.Message, bool, error) { return o.TryProbe(ctx, other, weft.AnyTag) },
			"for a port's tag": func() (weft.Message, bool, error) { return o.TryProbe(ctx, other, weft.Tag(10+i)) },
			"by a process's id": func() (weft.Message, bool,
				error) {
				return p.TryProbe(ctx, weft.Name{App: "c"}, weft.Tag(10+i))
			},
		} {
			if m, found, err := find(); found || err != nil {
				return fmt.Errorf("a probe %s: %+v, %v, %w", what, m, found, err)
			}
		}
		m, err := p.Recv(ctx, other, weft.AnyTag, buf)
		if err == nil {
			err = check(&m, buf[:m.Len], other, weft.Tag(10+i), i, n)
		}
		if err != nil {
			return err
		}
	}
	m, err := p.Probe(ctx, other, 20)
	if err != nil || !m.IsCall() {
		return fmt.Errorf("a probe for a call: %+v, %w", m, err)
	}
	if m, err = p.Recv(ctx, other, 20, nil); err != nil {
		return err
	}
	if err := p.Reply(ctx, m); err != nil {
		return err
	}
	return finish(ctx, p, other)
}

// lengthOf returns the length of message i. The lengths cover all kinds of messages that travel
// differently.
func lengthOf(i int) int { return [...]int{0, 1, 64, 700, 1400, 5000, 20_000, 150_000}[i%8] }

const anyLengths = 40

func sendAnyLength(ctx context.Context, p *weft.Process, other weft.Name) error {
	for i := range anyLengths {
		if err := p.Send(ctx, other, weft.Tag(i%3), fill(i, lengthOf(i))); err != nil {
			return err
		}
	}
	return finish(ctx, p, other)
}

func receiveAnyLength(ctx context.Context, p *weft.Process, other weft.Name) error {
	_, err := p.RecvAlloc(ctx, other, 1, -1)
	if err := refused("a limit below 0", err, weft.ErrBadArgument); err != nil {
		return err
	}
	for i := range anyLengths {
		limit, n := 150_000, lengthOf(i)
		if i%5 == 4 {
			limit = 1000
		}
		m, err := p.RecvAlloc(ctx, weft.AnyProcess, weft.AnyTag, limit)
		got := m.Data
		if n > limit {
			if refused("", err, weft.ErrTruncated) != nil || m.Full != n || m.Len != limit ||
				!bytes.Equal(got, fill(i, n)[:limit]) {
				return fmt.Errorf("message %d of %d bytes, of which at most %d are wanted: %d of %d, %w", i, n, limit,
					m.Len, m.Full, err)
			}
			continue
		}
		if err == nil {
			err = check(&m, got, other, weft.Tag(i%3), i, n)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if len(got) != n {
			return fmt.Errorf("message %d of %d bytes came in memory of %d", i, n, len(got))
		}
	}
	return finish(ctx, p, other)
}

const (
	sharers = 4
	stop    = 0xff // in place of a message number
)

func sendShared(ctx context.Context, p *weft.Process, other weft.Name) error {
	for i := range sharers * anyLengths {
		if err := p.Send(ctx, other, 1, []byte{byte(i)}, fill(i, lengthOf(i))); err != nil {
			return err
		}
	}
	for range sharers {
		if err := p.Send(ctx, other, 1, []byte{stop}); err != nil {
			return err
		}
	}
	return finish(ctx, p, other)
}

// shared records the messages that several functions of one process have received.
type shared struct {
	mu    sync.Mutex
	times [sharers * anyLengths]int
	err   error
	over  atomic.Int32
}

// receiveShared receives with several functions of the process concurrently. Half of them
// repeatedly give up.
func receiveShared(ctx context.Context, p *weft.Process, other weft.Name) error {
	var all shared
	for k := range sharers {
		p.Runtime().Go(func() {
			patience := time.Hour
			if k%2 == 1 {
				patience = 300 * time.Microsecond
			}
			err := all.receive(ctx, p, other, patience)
			all.mu.Lock()
			all.err = errors.Join(all.err, err)
			all.mu.Unlock()
			all.over.Add(1)
			p.Runtime().Wake()
		})
	}
	if err := p.Runtime().WaitUntil(ctx, func() bool { return all.over.Load() == sharers }); err != nil {
		return err
	}
	for i, n := range all.times {
		if n != 1 && all.err == nil {
			all.err = fmt.Errorf("message %d was received %d times", i, n)
		}
	}
	if all.err != nil {
		return all.err
	}
	return finish(ctx, p, other)
}

// receive receives until it gets the stop message.
func (all *shared) receive(ctx context.Context, p *weft.Process, other weft.Name, patience time.Duration) error {
	for {
		within, cancel := p.Runtime().WithTimeout(ctx, patience)
		m, err := p.RecvAlloc(within, weft.AnyProcess, 1, 1<<20)
		got := m.Data
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			continue
		case err != nil:
			return err
		case got[0] == stop:
			return nil
		}
		i := int(got[0])
		if m.From != other || m.Full != lengthOf(i)+1 || !bytes.Equal(got[1:], fill(i, lengthOf(i))) {
			return fmt.Errorf("message %d came as %+v, of %d bytes, or with others", i, m, len(got))
		}
		all.mu.Lock()
		all.times[i]++
		all.mu.Unlock()
	}
}
