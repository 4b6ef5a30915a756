package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/demo"
)

func init() { register(newDemoCommand) }

func newDemoCommand() *cobra.Command {
	o := demo.Default()
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show Weft at work: four NICs, a lossy network, every byte checked",
		Long: `Opens four NICs in this process, joined by sealed UDP links over loopback, and drops a share of
all frames. Then it sends messages of 0 B to 16 MiB in all directions, writes into and reads
from the memory of other processes, compares every byte with the sent one, and prints the
speed. It takes a few seconds, and leaves nothing behind.

The exit status is 0 if everything was right. Otherwise it is 1, and the command prints the
reason.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Loss == 1 {
				return usagef("--loss 100%%: expected less, since no frame would arrive")
			}
			o.Out, o.Terminal = c.OutOrStdout(), isTerminal(c.OutOrStdout())
			if err := demo.Run(c.Context(), o); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return nil
		},
	}
	shareFlag(c.Flags(), &o.Loss, "loss", "drop this share of all frames, such as 2% or 0.02 (default 2%)")
	seedFlag(c.Flags(), &o.Seed, "seed", o.Seed, "draw sizes, bytes and losses from seed N")
	return c
}

// isTerminal reports whether out is a terminal on which lines can be redrawn.
func isTerminal(out io.Writer) bool {
	f, ok := unprinted(out).(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
