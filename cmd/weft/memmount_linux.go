package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/memfile"
	"github.com/weftnet/weft/internal/sweep"
	"github.com/weftnet/weft/netmem"
)

// memMountFlags are the flags of `weft mem mount`.
type memMountFlags struct {
	volumeFlags
	patience time.Duration
}

func init() { memCommands = append(memCommands, newMemMount) }

func newMemMount() *cobra.Command {
	f := &memMountFlags{}
	c := &cobra.Command{
		Use:   "mount --size BYTES --server NAME… [flags] DIR",
		Short: "Mount network memory as a file, which programs can map",
		Long: `Creates an empty volume of network memory, and mounts it on the empty directory DIR as one file,
` + memfile.Name + `, until the command is interrupted or the directory is unmounted. Programs read, write and
map the file. The parts in use are in the page cache of this host, and the rest on page servers.
The command needs root and FUSE in the kernel.`,
		Example: `  weft mem mount --server mem/0 --server mem/1 --server mem/2 --copies 2 --size 4GiB /mnt/far
  mkfs.ext4 /mnt/far/memory && mount -o loop /mnt/far/memory /srv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%d arguments: expected one, an empty directory to mount on", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(c.Flags(), "weft-mem-mount"); err != nil {
				return err
			}
			return f.run(c.Context(), args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f.define(c.Flags())
	durationFlag(c.Flags(), &f.patience, "io-timeout", 30*time.Second, time.Millisecond, time.Hour,
		"fail an operation if no server answers within this time")
	return c
}

func (f *memMountFlags) run(ctx context.Context, dir string, out, errs io.Writer) (err error) {
	p, v, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { v.Close(); err = errors.Join(err, p.Close()) }()
	m, err := memfile.New(dir, memfile.Config{
		Device: v, Source: f.name.String(), Timeout: f.patience,
		Used: func() int64 { return int64(v.Stats().Pages) * int64(v.PageBytes()) },
		Full: func(err error) bool { return errors.Is(err, netmem.ErrFull) },
		Log:  func(text string) { fmt.Fprintf(errs, "weft: mount: %s\n", text) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v shows %s on %s as %s, %s\n",
		f.name, byteText(f.size), sweep.Plural(len(f.servers), "server"), filepath.Join(dir, memfile.Name), keptAs(v))
	ctx, stop := while(ctx, v)
	told := make(chan struct{})
	go func() { f.tell(ctx, v, out); close(told) }()
	defer func() { err = errors.Join(err, stop()); <-told }()
	ended := make(chan struct{})
	go func() { m.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return m.Close()
	}
}
