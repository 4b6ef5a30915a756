package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/nbd"
	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/internal/sweep"
	"github.com/weftnet/weft/netmem"
)

// memNBDFlags are the flags of `weft mem nbd`.
type memNBDFlags struct {
	volumeFlags
	unix, tcp string
	export    string
	patience  time.Duration
	secure    nbdTLSFlags
}

func newMemNBD() *cobra.Command {
	f := &memNBDFlags{}
	c := &cobra.Command{
		Use:   "nbd --size BYTES --server NAME… --unix PATH [flags]",
		Short: "Serve network memory as a block device to NBD clients",
		Long: `Creates an empty volume of network memory, and serves it by the Network Block Device protocol
until the command is interrupted. Clients are the kernel's nbd-client, qemu, libnbd and fio,
for example. A write is confirmed when all copies are on page servers. Trimmed and zeroed
ranges take no memory.

With --tls-cert, every client must use STARTTLS. With --tls-ca, it also needs a certificate of
that authority. Every client that reaches --tcp can read and write the device. Without
--tls-cert, the address must therefore be on loopback, or --insecure must be given.`,
		Example: `  weft mem nbd --server mem/0 --server mem/1 --server mem/2 --copies 2 \
    --size 4GiB --unix /tmp/mem.sock
  nbdinfo 'nbd+unix:///?socket=/tmp/mem.sock'
  qemu-img convert image.qcow2 -n -O raw 'nbd+unix:///?socket=/tmp/mem.sock'
  weft mem nbd --server mem/0 --size 4GiB --tcp 10.0.0.1:10809 \
    --tls-cert server-cert.pem --tls-key server-key.pem --tls-ca ca-cert.pem
  nbdinfo 'nbds://10.0.0.1/?tls-certificates=DIRECTORY'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.complete(c.Flags()); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	fs := c.Flags()
	f.define(fs)
	fs.StringVar(&f.unix, "unix", "", "serve at this unix socket `PATH`")
	fs.StringVar(&f.tcp, "tcp", "", "serve at this TCP address `IP:PORT`")
	fs.StringVar(&f.export, "export", "", "set the `NAME` of the export (default: the empty name)")
	f.secure.define(fs)
	durationFlag(fs, &f.patience, "io-timeout", 30*time.Second, time.Millisecond, time.Hour,
		"fail a request if no server answers within this time")
	return c
}

// complete checks the combinations of flags.
func (f *memNBDFlags) complete(fs *pflag.FlagSet) error {
	if (f.unix == "") == (f.tcp == "") {
		return usagef("--unix is %q and --tcp is %q: expected one of them, where clients connect", f.unix, f.tcp)
	}
	if err := f.completeTLS(); err != nil {
		return err
	}
	return f.volumeFlags.complete(fs, "weft-mem-nbd")
}

func (f *memNBDFlags) run(ctx context.Context, out, errs io.Writer) (err error) {
	network, where := "unix", f.unix
	if f.tcp != "" {
		network, where = "tcp", f.tcp
	}
	// before this process asks a server for anything
	if err := proxy.Free(network, where); err != nil {
		return err
	}
	p, v, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { v.Close(); err = errors.Join(err, p.Close()) }()
	s, err := nbd.New(nbd.Config{
		Device: v, Export: f.export, Description: "network memory of " + f.name.String(), Block: v.PageBytes(),
		Timeout: f.patience,
		TLS:     f.secure.config, Clients: f.secure.clients,
		Full: func(err error) bool { return errors.Is(err, netmem.ErrFull) },
		Log:  func(text string) { fmt.Fprintf(errs, "weft: nbd: %s\n", text) },
	})
	if err != nil {
		return err
	}
	f.nbdCounts = s.Counts
	l, err := proxy.Listen(network, where)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v serves %s on %s at %s, %s\n",
		f.name, byteText(f.size), sweep.Plural(len(f.servers), "server"), l.Addr(), keptAs(v))
	if f.secure.open {
		fmt.Fprintf(errs, "weft: nbd: without --tls-ca, every client that reaches %s can read and write the "+
			"device\n", l.Addr())
	}
	ctx, stop := while(ctx, v)
	told := make(chan struct{})
	go func() { f.tell(ctx, v, out); close(told) }()
	defer func() { err = errors.Join(err, stop()); <-told; printNBD(out, s.Counts()) }()
	return s.Serve(ctx, l)
}
