package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftnet/weft/internal/testbed"
)

// onHosts makes two hosts, and has both sides of a measurement there, each as a weft of its own. The testbed ends with
// this process, however that ends, and both sides with it.
func (u *undo) onHosts(ctx context.Context, o *Options) (*hostSide, error) {
	tb, err := testbed.New(testbed.Config{Hosts: 2, Loss: o.Loss, Lossy: o.Lossy, Apart: o.Apart, MTU: o.mtu()})
	if err != nil {
		return nil, err
	}
	u.add(tb.Close)
	listen := fmt.Sprintf("%v:%d", tb.Host(1).Addr(), DefaultPort)
	addr, err := u.startServer(newChildOn(tb.Host(1), o.Self, o.arguments("--serve", "--listen", listen)...))
	if err != nil {
		return nil, fmt.Errorf("bench: starting a server on its host: %w", err)
	}
	return u.startClient(ctx, tb, newChildOn(tb.Host(0), o.Self, o.arguments(addr)...))
}

// hostSide is a client in a process of its own.
type hostSide struct {
	bed   *testbed.Testbed
	child *child
	ask   *json.Encoder
	told  *json.Decoder
}

func (u *undo) startClient(ctx context.Context, tb *testbed.Testbed, of *child) (*hostSide, error) {
	c, err := u.talk(of)
	if err != nil {
		return nil, fmt.Errorf("bench: starting a client on its host: %w", err)
	}
	stop := c.hangUpWith(ctx)
	u.add(func() error { stop(); return nil })
	return &hostSide{tb, of, json.NewEncoder(c.in), json.NewDecoder(c.out)}, nil
}

// question is what a client in a process of its own is asked, and told what it answers.
type question struct {
	Kind string        `json:"kind"`
	Size int           `json:"size"`
	Time time.Duration `json:"time"`
}

type told struct {
	Iterations int64    `json:"iterations"`
	Rate       float64  `json:"rate"`
	Bandwidth  float64  `json:"bandwidth"`
	Lost       float64  `json:"lost"`
	Times      []byte   `json:"times"` // a histogram, as HdrHistogram encodes it
	Streams    *Streams `json:"streams,omitempty"`
	Trips      []trips  `json:"trips,omitempty"`
}

func (s *hostSide) sample(ctx context.Context, kind string, size int, d time.Duration) (sample, error) {
	var t told
	err := s.ask.Encode(question{kind, size, d})
	if err == nil {
		err = s.told.Decode(&t)
	}
	if err != nil {
		return sample{}, errors.Join(context.Cause(ctx), s.child.endedWhy(err))
	}
	r := sample{Iterations: t.Iterations, Rate: t.Rate, Bandwidth: t.Bandwidth, Lost: t.Lost, Streams: t.Streams, Trips: t.Trips}
	if t.Times != nil {
		r.Times, err = hdrhistogram.Decode(t.Times)
	}
	return r, err
}

// endedWhy says why a child no longer answers.
func (c *child) endedWhy(err error) error {
	select {
	case <-c.ended:
	case <-time.After(grace):
		return fmt.Errorf("bench: a client says nothing: %w", err)
	}
	if why := c.failure(); why != nil {
		return why
	}
	return fmt.Errorf("bench: a client ended: %w", err)
}

// Answer is what a client does in a process of its own: it makes the measurements that it is asked for, until in ends.
func Answer(ctx context.Context, o Options, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	s, err := down.here(ctx, &o)
	if err != nil {
		return err
	}
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if err := questions.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := s.sample(ctx, q.Kind, q.Size, q.Time)
		if err != nil {
			return err
		}
		t := told{Iterations: r.Iterations, Rate: r.Rate, Bandwidth: r.Bandwidth, Lost: r.Lost, Streams: r.Streams, Trips: r.Trips}
		if r.Times != nil {
			if t.Times, err = r.Times.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
				return err
			}
		}
		if err := answers.Encode(t); err != nil {
			return err
		}
	}
}
