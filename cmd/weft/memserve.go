package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
)

// serverPage is the size of a server's pages in bytes. The memory lent is a multiple of it.
const serverPage = 8192

// memServeFlags are the flags of `weft mem serve`.
type memServeFlags struct {
	name  fabric.Name
	size  int64
	quota int64
	spill string
	file  int64
	keep  time.Duration
	shelf time.Duration
	admit []string
	at    joinFlags
}

func newMemServe() *cobra.Command {
	f := &memServeFlags{}
	c := &cobra.Command{
		Use:   "serve --name NAME --size BYTES [flags]",
		Short: "Run a page server: lend memory of this host",
		Long: `Lends memory of this host to clients of the fabric until the command is interrupted. The
server's pages are lost then. Clients with --copies or --code keep them on other servers, too.

A server that is attached to a NIC daemon registers its memory with the daemon. The daemon's
region_bytes must be about 1 % larger than that memory.

After a server was killed, the same command can start it again at once. If another process has
the name, the server waits up to 10s for it.`,
		Example: `  weft mem serve --name mem/0 --size 8GiB              # attached to this host's daemon
  weft mem serve --name mem/0 --size 512MiB --listen 10.0.0.1:7720   # with an embedded NIC`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c.Flags()); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f.define(c.Flags())
	return c
}

func (f *memServeFlags) define(fs *pflag.FlagSet) {
	nameFlag(fs, &f.name, "name", "set the process name of this server, such as mem/0")
	bytesFlag(fs, &f.size, "size", 0, serverPage, "lend this much memory")
	bytesFlag(fs, &f.quota, "quota", 0, serverPage, "limit the memory of one client (default: all)")
	fs.StringVar(&f.spill, "spill", "",
		"write pages to `FILE` when the memory is full; FILE must be new or empty, and is removed with the server")
	bytesFlag(fs, &f.file, "spill-size", 0, serverPage,
		"set the size of that file, which is allocated at once (default: that of --size)")
	durationFlag(fs, &f.keep, "keep", netmem.KeepUsual, netmem.KeepLeast, 365*24*time.Hour,
		"drop a client's pages after this silence; if its process is known to have ended, drop them at once")
	durationFlag(fs, &f.shelf, "shelve", 0, netmem.KeepLeast, 365*24*time.Hour,
		"store shelves, which outlive their clients, and keep each for this time after its last client has "+
			"ended (default: no shelves)")
	fs.Var(&checkedFlag{
		kind: "NAME",
		want: "a process, such as app/3, or an application, such as app",
		set: func(s string) bool {
			f.admit = append(f.admit, s)
			if !strings.Contains(s, "/") {
				s += "/0" // an application: any process of it
			}
			_, err := fabric.ParseName(s)
			return err == nil
		},
	}, "admit", "admit only this process or application; may be repeated (default: all)")
	fs.StringVar(&f.at.key, "key", "",
		"with --listen: keep the NIC's static key, and so its id, in `FILE`, which is created if it does not exist "+
			"(default: the name of the --spill file with .key appended; without --spill, a new key at each start)")
	f.at.define(fs)
}

// complete checks the combinations of flags.
func (f *memServeFlags) complete(fs *pflag.FlagSet) error {
	switch {
	case !fs.Changed("name"):
		return usagef("no --name given: expected the name of a process, such as mem/0")
	case !fs.Changed("size"):
		return usagef("no --size given: expected the size of the memory to lend, such as 8GiB")
	case f.file > 0 && f.spill == "":
		return usagef("--spill-size without --spill: expected --spill FILE, too")
	}
	switch {
	case f.at.listen == "" && f.at.key != "":
		return usagef("--key without --listen: expected both, since a NIC daemon has its own key")
	case f.at.listen != "" && f.at.key == "" && f.spill != "":
		f.at.key = f.spill + ".key"
	}
	if f.spill != "" && f.file == 0 {
		f.file = f.size
	}
	if f.quota > f.size+f.file {
		return usagef("--quota is %d bytes: expected at most %d, the memory and the file together",
			f.quota, f.size+f.file)
	}
	return f.at.complete()
}

// admits reports whether a client may use the server.
func (f *memServeFlags) admits(client fabric.Name) bool {
	return slices.ContainsFunc(f.admit, func(s string) bool {
		if !strings.Contains(s, "/") {
			return s == client.App
		}
		n, err := fabric.ParseName(s)
		return err == nil && n == client
	})
}

// A server that was killed and started again may meet its own old name: the other NICs keep the
// old claim until they notice that its process is gone. nameWait is longer than that takes.
const (
	nameWait  = 10 * time.Second
	nameEvery = 500 * time.Millisecond
)

// take joins the fabric under the name of the server. If another process has the name, take
// waits for it and says so once. It returns the error if the name is not free in time.
func (f *memServeFlags) take(ctx context.Context, errs io.Writer) (*fabric.Process, error) {
	for until := time.Now().Add(nameWait); ; {
		p, err := f.at.join(ctx, f.name)
		if !errors.Is(err, fabric.ErrNameTaken) || time.Now().After(until) {
			return p, err
		}
		if errs != nil {
			fmt.Fprintf(errs, "weft: serve: %v; waiting up to %v, "+
				"in case that process is an earlier life of this server\n",
				err, nameWait)
			errs = nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(nameEvery):
		}
	}
}

func (f *memServeFlags) run(ctx context.Context, out, errs io.Writer) (err error) {
	p, err := f.take(ctx, errs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	cfg := netmem.ServerConfig{Bytes: int(f.size), QuotaBytes: int(f.quota), Spill: f.spill, SpillBytes: f.file,
		Keep: f.keep, Shelve: f.shelf}
	if len(f.admit) > 0 {
		cfg.Admit = f.admits
	}
	s, err := netmem.Serve(p, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	where := ""
	if n := p.NIC(); n != nil {
		where = " at " + n.Addr()
	}
	spill := ""
	if f.spill != "" {
		spill = fmt.Sprintf(", and %s in a file", byteText(f.file))
	}
	fmt.Fprintf(out, "%v lends %s%s%s\n", f.name, byteText(f.size), where, spill)
	err = s.Wait(ctx)
	if ctx.Err() != nil {
		return nil // interrupted
	}
	return err
}
