package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft/internal/proxy"
)

// statProxy prints what a proxy carries.
func statProxy(ctx context.Context, out io.Writer, o *statOptions) error {
	s, err := proxy.Ask(ctx, o.proxy)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(s)
	}
	c := s.Counts
	fmt.Fprintf(out, "proxy %d at %s: %d connections, of which %d are open, %d could not be dialled and %d were reset; %d bytes there, %d back\n",
		s.PID, s.Listener, c.Accepted, c.Open, c.Refused, c.Reset, c.There, c.Back)
	for _, c := range s.Connections {
		fmt.Fprintf(out, "%14d  %14d  %s to %s for %v\n", c.There, c.Back, c.From, c.To, time.Since(c.Since).Round(time.Second))
	}
	return nil
}
