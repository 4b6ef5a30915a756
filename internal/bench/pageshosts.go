package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/weftnet/weft/internal/testbed"
)

// onHosts measures page-ins or page-outs between two hosts that are made for it.
func (o *PagesOptions) onHosts(ctx context.Context) (r PagesRow, err error) {
	var u undo
	defer func() { err = errors.Join(err, u.all()) }()
	tb, err := testbed.New(testbed.Config{Hosts: 2})
	if err != nil {
		return r, err
	}
	u.add(tb.Close)
	on := func(host int, more ...string) *child {
		listen := fmt.Sprintf("%v:%d", tb.Host(host).Addr(), DefaultPort)
		return newChildOn(tb.Host(host), o.Self, append([]string{"bench", o.Kind, "--link", o.Link, "--listen", listen}, more...)...)
	}
	addr, err := u.startServer(on(1, "--child"))
	if err != nil {
		return r, fmt.Errorf("bench: starting a page server on its host: %w", err)
	}
	client, err := u.talk(on(0, "--server", addr, "--json", "--page", strconv.Itoa(o.Page), "--depth", strconv.Itoa(o.Depth), "--time", o.Time.String()))
	if err != nil {
		return r, fmt.Errorf("bench: starting a client on its host: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = client.Process.Signal(syscall.SIGTERM) })()
	if err := client.hear(&r); err != nil {
		return r, errors.Join(context.Cause(ctx), err)
	}
	return r, nil
}
