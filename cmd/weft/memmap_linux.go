package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/paging"
	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/internal/sweep"
	"github.com/weftnet/weft/internal/userfault"
	"github.com/weftnet/weft/netmem"
)

// memMapFlags are the flags of `weft mem map`.
type memMapFlags struct {
	volumeFlags
	resident int64
	unix     string
	patience time.Duration
}

func init() { memCommands = append(memCommands, newMemMap) }

func newMemMap() *cobra.Command {
	f := &memMapFlags{}
	f.readAhead = -1 // the pager reads ahead itself
	c := &cobra.Command{
		Use:   "map --size BYTES --resident BYTES --server NAME… [flags] [-- CMD [ARG…]]",
		Short: "Run a program whose memory is paged to page servers",
		Long: `Creates a volume of network memory, runs CMD, and gives it --size bytes of zeroed memory. At
most --resident bytes are local. When CMD touches a page that is not local, the pager fetches
it from a page server. It evicts pages that were not used recently.

CMD asks for the memory at the unix socket that ` + netmem.MapVariable + ` names: in Go by netmem.Map, in other
languages by the protocol in docs/netmem.md. The exit status is that of CMD. Without CMD, the
command serves programs that ask at --unix, one after another, until it is interrupted.

If no server has a page any more, or none delivers it within --io-timeout, the access raises
SIGBUS. If the pager ends, the program is killed.`,
		Example: `  weft mem map --server mem/0 --server mem/1 --server mem/2 --copies 2 \
    --size 8GiB --resident 1GiB -- ./program`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.complete(c.Flags(), args); err != nil {
				return err
			}
			return f.run(c, args)
		},
	}
	fs := c.Flags()
	f.define(fs)
	bytesFlag(fs, &f.resident, "resident", 0, 4096, "keep at most this much of it local")
	fs.StringVar(&f.unix, "unix", "",
		"serve the memory at this unix socket `PATH` (default with CMD: a temporary one)")
	durationFlag(fs, &f.patience, "io-timeout", 30*time.Second, time.Millisecond, time.Hour,
		"raise SIGBUS if no server delivers the page within this time")
	return c
}

// complete checks the combinations of flags.
func (f *memMapFlags) complete(fs *pflag.FlagSet, args []string) error {
	if err := f.volumeFlags.complete(fs, "weft-mem-map"); err != nil {
		return err
	}
	page := max(f.page, int64(os.Getpagesize()))
	switch least := page * paging.MinLimit; {
	case !fs.Changed("resident"):
		return usagef("no --resident given: expected the limit of local memory, such as 1GiB")
	case f.resident < least || f.resident%page != 0:
		return usagef("--resident is %d bytes: expected a multiple of %d, the size of a page, and at least %d",
			f.resident, page, least)
	case f.resident > f.size:
		return usagef("--resident is %d bytes: expected at most %d, the --size", f.resident, f.size)
	case len(args) == 0 && f.unix == "":
		return usagef("no command and no --unix: expected a command to run, " +
			"or a socket at which programs ask for memory")
	}
	return nil
}

func (f *memMapFlags) run(c *cobra.Command, args []string) (err error) {
	ctx, errs := c.Context(), c.ErrOrStderr()
	if len(args) > 0 {
		if _, err := exec.LookPath(args[0]); err != nil {
			return notStarted(err)
		}
	}
	if err := userfault.Check(); err != nil {
		return err
	}
	p, v, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { v.Close(); err = errors.Join(err, p.Close()) }()
	pager, err := userfault.New(userfault.Config{
		Device: v, Page: v.PageBytes(), Resident: f.resident, Timeout: f.patience,
		Log: func(text string) { fmt.Fprintf(errs, "weft: map: %s\n", text) },
	})
	if err != nil {
		return err
	}
	if f.unix == "" {
		dir, err := os.MkdirTemp("", "weft-mem-")
		if err != nil {
			return fmt.Errorf("creating a directory for a socket: %w", err)
		}
		defer os.RemoveAll(dir)
		f.unix = filepath.Join(dir, "memory.sock")
	}
	l, err := proxy.Listen(userfault.Network, f.unix)
	if err != nil {
		return err
	}
	// Standard output belongs to the command, so these lines go to the error output.
	fmt.Fprintf(errs, "%v gives %s on %s at %s, %s resident, %s\n",
		f.name, byteText(f.size), sweep.Plural(len(f.servers), "server"), f.unix, byteText(f.resident), keptAs(v))
	f.more = func() any { return pager.Stats() }
	serving, stop := f.serving(ctx, v, len(args) > 0)
	told, served := make(chan struct{}), make(chan error, 1)
	go func() { f.tell(serving, v, errs); close(told) }()
	go func() { served <- pager.Serve(serving, l.(*net.UnixListener)) }()
	defer func() { err = errors.Join(err, stop()); <-told }()
	if len(args) == 0 {
		return <-served
	}
	err = runWithMemory(ctx, c, f.unix, args)
	return errors.Join(err, stop(), <-served)
}

// serving returns a context for serving. With no command it is that of while, for all programs
// that ask. With a command, an interrupt goes to the command. The command keeps its memory until
// it ends, and its local pages even when the rest is gone.
func (f *memMapFlags) serving(
	ctx context.Context, v *netmem.Volume, command bool,
) (within context.Context, stop func() error) {
	if !command {
		return while(ctx, v)
	}
	within, end := context.WithCancel(context.WithoutCancel(ctx))
	return within, func() error { end(); return nil }
}

// graceOfCommand is how long a command may take to end after SIGTERM.
const graceOfCommand = 10 * time.Second

// runWithMemory runs a command that asks for memory at a socket, and passes on its exit status.
// When ctx ends, it sends the command SIGTERM.
func runWithMemory(ctx context.Context, c *cobra.Command, socket string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdoutOf(c), c.ErrOrStderr()
	cmd.Env = append(os.Environ(), netmem.MapVariable+"="+socket)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = graceOfCommand
	// without this process, the command would wait for its memory for ever
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The end of the thread that starts a command counts as the end of this process, so the
	// thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return notStarted(err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = &exec.ExitError{ProcessState: cmd.ProcessState}
	}
	return passOn(err)
}
