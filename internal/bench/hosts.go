package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// apart has both sides of a measurement in processes of their own: on two hosts that are made for it, or else on this one, with processors of
// their own; with a shared daemon, it is the daemon that has. The testbed ends with this process, however that ends, and both sides with it.
func (u *undo) apart(ctx context.Context, o *Options) (client *crew, bed *testbed.Testbed, err error) {
	var listen string
	half := 1 // of the server
	if o.Veth {
		c := testbed.Config{Hosts: 2, Loss: o.Loss, Lossy: o.Lossy, Apart: o.Apart, MTU: o.mtu()}
		if o.Rate > 0 {
			c.Rates = []int64{o.Rate}
		}
		if bed, err = testbed.New(c); err != nil {
			return nil, nil, err
		}
		u.add(bed.Close)
		listen = hostAddress(bed, 1)
	} else {
		if listen, err = u.meetingPlace(ctx, o); err != nil {
			return nil, nil, err
		}
		if o.Deployment == DeployedShared {
			half = 0
		}
	}
	addr, err := u.startServer(ctx, childAt(bed, half, o.Self, o.arguments("--serve", "--listen", listen)...))
	if err != nil {
		return nil, nil, err
	}
	client, err = u.talk(ctx, childAt(bed, 0, o.Self, o.arguments(addr)...))
	if err != nil {
		err = fmt.Errorf("bench: starting a client: %w", err)
	}
	return client, bed, err
}

// hostAddress is where a NIC on a host of a testbed listens.
func hostAddress(bed *testbed.Testbed, host int) string {
	return fmt.Sprintf("%v:%d", bed.Host(host).Addr(), DefaultPort)
}

// question is what a client in a process of its own is asked. It answers with a sample.
type question struct {
	Kind string
	Size int
	Time time.Duration
}

func (c *crew) sample(_ context.Context, kind string, size int, d time.Duration) (s sample, err error) {
	return s, c.ask(question{kind, size, d}, &s)
}

// Answer is what a client does in a process of its own: it makes the measurements that it is asked for, until in ends.
func Answer(ctx context.Context, o Options, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	c, err := down.here(ctx, &o)
	if err != nil {
		return err
	}
	return answerAll(in, out, func(q question) (any, error) { return c.sample(ctx, q.Kind, q.Size, q.Time) })
}
