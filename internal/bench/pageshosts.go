package bench

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/testbed"
)

// onHosts measures page-ins or page-outs between two hosts of a testbed.
func (o *PagesOptions) onHosts(ctx context.Context) (r PagesRow, err error) {
	var u undo
	defer u.end(ctx, &err)
	tb, err := testbed.New(testbed.Config{Hosts: 2})
	if err != nil {
		return r, err
	}
	u.add(tb.Close)
	on := func(host int, server string) *child {
		p := *o
		p.Veth, p.Listen, p.Server = false, hostAddress(tb, host), server
		return newChildOn(tb.Host(host), o.Self, childPlan{Pages: &pagesPlan{p}}.args(o.Kind)...)
	}
	addr, err := u.startServer(ctx, on(1, ""))
	if err != nil {
		return r, err
	}
	client, err := u.talk(ctx, on(0, addr))
	if err != nil {
		return r, fmt.Errorf("bench: starting a client on its host: %w", err)
	}
	return r, client.hear(&r)
}
