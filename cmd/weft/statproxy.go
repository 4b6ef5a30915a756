package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/internal/proxy"
)

// statProxy prints the connections of a proxy.
func statProxy(ctx context.Context, out io.Writer, o *statOptions) error {
	s, err := proxy.Ask(ctx, o.proxy)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(s)
	}
	printProxy(out, &s, true)
	return nil
}

// statProxies prints the connections of each proxy that this user runs.
func statProxies(ctx context.Context, out io.Writer, o *statOptions) error {
	all, err := proxy.Find(ctx)
	for i := range all {
		f := &all[i]
		switch {
		case o.json:
			err = errors.Join(err, json.NewEncoder(out).Encode(f))
		case f.Dead():
			fmt.Fprintf(out, "proxy %d was killed; its socket %s is removed now\n", f.PID, f.Socket)
		case f.Why != "":
			fmt.Fprintf(out, "proxy %d does not answer: %s\n", f.PID, f.Why)
		default:
			printProxy(out, &f.Status, o.proxies)
		}
	}
	return err
}

// printProxy prints the counts of a proxy. If connections is set, it also prints each
// connection.
func printProxy(out io.Writer, s *proxy.Status, connections bool) {
	c := s.Counts
	fmt.Fprintf(out, "proxy %d at %s: %d connections: %d open, %d failed to dial, %d reset; %d bytes there, %d bytes "+
		"back\n",
		s.PID, s.Listener, c.Accepted, c.Open, c.Refused, c.Reset, c.There, c.Back)
	printTurnedAway(out, &c)
	if !connections {
		return
	}
	for _, c := range s.Connections {
		fmt.Fprintf(out, "%14d  %14d  %s to %s for %v\n",
			c.There, c.Back, c.From, c.To, time.Since(c.Since).Round(time.Second))
	}
}

// printTurnedAway prints how many connections a proxy turned away, if any.
func printTurnedAway(out io.Writer, c *proxy.Counts) {
	if c.GaveWay+c.Full+c.Wrong+c.Unchecked > 0 {
		fmt.Fprintf(out, "turned away: %d gave way to others without a request, "+
			"%d were refused because all places were taken, "+
			"%d had a wrong user or password, %d passwords were not checked\n",
			c.GaveWay, c.Full, c.Wrong, c.Unchecked)
	}
}
