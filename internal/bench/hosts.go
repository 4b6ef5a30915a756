package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

// apart starts both sides of a measurement as separate processes: on two hosts of a testbed, or
// else on this host, each with its own processors. With a shared daemon, the daemon has its own
// processors instead. The testbed ends with this process, even if that is killed, and both sides
// end with the testbed.
func (u *undo) apart(ctx context.Context, o *Options) (client *crew, bed *testbed.Testbed, err error) {
	var listen string
	half := 1 // the server's
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

// hostAddress returns the address at which a NIC on a host of a testbed listens.
func hostAddress(bed *testbed.Testbed, host int) string {
	return fmt.Sprintf("%v:%d", bed.Host(host).Addr(), DefaultPort)
}

// question is a question to a client in a separate process. The client answers with a sample.
type question struct {
	Kind string
	Size int
	Time time.Duration
}

func (c *crew) sample(_ context.Context, kind string, size int, d time.Duration) (s sample, err error) {
	return s, c.ask(question{kind, size, d}, &s)
}

// Answer runs a client in a separate process: it makes the measurements that it is asked for,
// until in ends.
func Answer(ctx context.Context, o Options, in io.Reader, out io.Writer) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	c, err := down.here(ctx, &o)
	if err != nil {
		return err
	}
	return answerAll(in, out, func(q question) (any, error) { return c.sample(ctx, q.Kind, q.Size, q.Time) })
}
