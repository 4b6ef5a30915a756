package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/nbd"
	"github.com/weftnet/weft/netmem"
)

// volumeFlags are the flags of commands that use network memory as bytes.
type volumeFlags struct {
	name    fabric.Name
	size    int64
	servers []netmem.ServerRef
	copies  int
	coding  netmem.Code
	shrink  bool
	page    int64
	opening time.Duration
	report  time.Duration
	at      joinFlags

	readAhead int               // as in netmem.VolumeConfig
	more      func() any        // adds to a report; nil: nothing
	nbdCounts func() nbd.Counts // of the server; nil: there is none
}

func (f *volumeFlags) define(fs *pflag.FlagSet) {
	nameFlag(fs, &f.name, "name", "set the process name (default: a unique name)")
	bytesFlag(fs, &f.size, "size", 0, 4096, "set the size of the volume")
	fs.Var(&checkedFlag{
		kind: "NAME[=WEIGHT]",
		want: "the name of a page server, such as mem/0, or with its share of the pages, such as mem/0=2",
		set: func(s string) bool {
			ref, ok := parseServer(s)
			f.servers = append(f.servers, ref)
			return ok
		},
	}, "server", "use this page server; may be repeated")
	intFlag(fs, &f.copies, "copies", 1, 1, 16, "store each page on N servers; while fewer are up, writes wait")
	fs.Var(&checkedFlag{
		kind: "K+M",
		want: "the number of data shards and the number of parity shards of a page, such as 4+2",
		set:  func(s string) bool { var ok bool; f.coding, ok = parseCode(s); return ok },
	}, "code", "store each page as K data shards and M parity shards on K + M servers, instead of copies; "+
		"up to M of these servers may be down")
	fs.BoolVar(&f.shrink, "compress", false, "compress pages, to send less and to store more on the servers")
	bytesFlag(fs, &f.page, "page", 4096, 4096, "set the size of a page: 4KiB or 8KiB")
	durationFlag(fs, &f.opening, "timeout", 10*time.Second, time.Millisecond, time.Hour,
		"wait this long for the first answers of the servers")
	durationFlag(fs, &f.report, "report", 0, 10*time.Millisecond, time.Hour,
		"print the state and the counters of the volume at this interval, one JSON object a line (default: never)")
	f.at.define(fs)
}

// parseServer parses the name of a server with its weight.
func parseServer(s string) (ref netmem.ServerRef, ok bool) {
	name, weight, weighted := strings.Cut(s, "=")
	var err error
	ref.Name, err = fabric.ParseName(name)
	if weighted {
		n, scanned := fmt.Sscanf(weight+"\n", "%g\n", &ref.Weight)
		ok = n == 1 && scanned == nil && ref.Weight > 0 && !math.IsInf(ref.Weight, 1)
	}
	return ref, err == nil && (ok || !weighted) && ref.Name != fabric.AnyProcess
}

// parseCode parses a way to cut pages.
func parseCode(s string) (c netmem.Code, ok bool) {
	n, err := fmt.Sscanf(s+"\n", "%d+%d\n", &c.Data, &c.Parity)
	return c, n == 2 && err == nil && c.Data > 1 && c.Parity > 0
}

// complete checks the combinations of flags. tool is the name of the process if the flags give
// none.
func (f *volumeFlags) complete(fs *pflag.FlagSet, tool string) error {
	switch {
	case !fs.Changed("size"):
		return usagef("no --size given: expected the size of the volume, such as 8GiB")
	case len(f.servers) == 0:
		return usagef("no --server given: expected the name of a page server, such as mem/0")
	case f.copies > len(f.servers):
		return usagef("--copies is %d: expected at most %d, the number of servers", f.copies, len(f.servers))
	case f.coding.Data > 0 && fs.Changed("copies"):
		return usagef("--copies is %d and --code is %v: expected one of them", f.copies, f.coding)
	case f.coding.Data+f.coding.Parity > len(f.servers):
		return usagef("--code is %v: expected %d servers or more; there are %d",
			f.coding, f.coding.Data+f.coding.Parity, len(f.servers))
	case f.page > 8192:
		return usagef("--page is %d: expected 4096 or 8192", f.page)
	case f.size%f.page != 0:
		return usagef("--size is %d bytes: expected a multiple of %d, the size of a page", f.size, f.page)
	}
	if !fs.Changed("name") {
		f.name = toolName(tool)
	}
	return f.at.complete()
}

// open makes the process and the volume.
func (f *volumeFlags) open(ctx context.Context) (*fabric.Process, *netmem.Volume, error) {
	outlivesReaders()
	ctx, cancel := context.WithTimeoutCause(ctx, f.opening,
		fmt.Errorf("no answer of the servers within %v", f.opening))
	defer cancel()
	p, err := f.at.join(ctx, f.name)
	if err != nil {
		return nil, nil, err
	}
	v, err := netmem.Open(ctx, p, netmem.VolumeConfig{ClientConfig: netmem.ClientConfig{Servers: f.servers,
		Copies: f.copies, Coding: f.coding, Compress: f.shrink, PageBytes: int(f.page)}, Bytes: f.size,
		ReadAhead: f.readAhead})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && cause != ctx.Err() {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		p.Close()
		return nil, nil, err
	}
	return p, v, nil
}

// while returns a context that ends with ctx, or when the volume can no longer be used. That is
// the case when its process has ended, for example with the daemon that it is attached to. stop
// then returns the reason; it must be called in any case.
func while(ctx context.Context, v *netmem.Volume) (within context.Context, stop func() error) {
	within, cancel := context.WithCancelCause(ctx)
	gone := make(chan error, 1)
	go func() {
		err := v.Wait(within)
		if within.Err() == nil {
			err = fmt.Errorf("the network memory is lost: %w", err)
			cancel(err)
			gone <- err
		}
		close(gone)
	}()
	return within, func() error {
		cancel(nil)
		return <-gone
	}
}

// keptAs describes how the pages of a volume survive the loss of a server.
func keptAs(v *netmem.Volume) string {
	c := v.Stats().Code
	if c.Data > 1 {
		return c.String() + " shards of a page"
	}
	return c.String() + " of a page"
}

// tell prints the volume's state and counters. If a report interval is set, it repeats until ctx
// ends.
func (f *volumeFlags) tell(ctx context.Context, v *netmem.Volume, out io.Writer) {
	if f.report == 0 {
		return
	}
	tick := time.NewTicker(f.report)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			var more any
			if f.more != nil {
				more = f.more()
			}
			var clients *nbd.Counts
			if f.nbdCounts != nil {
				c := f.nbdCounts()
				clients = &c
			}
			err := json.NewEncoder(out).Encode(struct {
				Time   time.Time   `json:"time"`
				Client fabric.Name `json:"client"`
				netmem.ClientStats
				Pager any         `json:"pager,omitempty"`
				NBD   *nbd.Counts `json:"nbd,omitempty"`
			}{now, f.name, v.Stats(), more, clients})
			if err != nil {
				return
			}
		}
	}
}
