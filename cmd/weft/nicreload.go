package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
)

// reloadWithin bounds the time in which a NIC reads its configuration. It may have to look up the
// names of many hosts.
const reloadWithin = time.Minute

func newNICReloadCommand() *cobra.Command {
	var socket string
	var check bool
	c := &cobra.Command{
		Use:   "reload",
		Short: "Make the NIC of this host reload its configuration, as SIGHUP does",
		Long: `Makes the daemon read its configuration file again, with the flags of its command line. These keys
take effect at once:
  [[node]] and registry       revocations
  key_files and their keys    allow_uids, allow_gids and program_uids
  certificate                 slots
  [grants]                    log
The command prints the changes, and which of them need a restart of the daemon. If the
configuration is wrong, the NIC keeps its configuration, and the command prints the mistakes.

Attached processes stay, even if their users may no longer attach. Sessions with other NICs
stay, even if they began with an earlier fabric key. The configuration replaces the list of
nodes, and so removes nodes that only 'weft nodes add' has named.

Only the daemon's own user and root may reload it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), reloadWithin)
			defer cancel()
			conn, err := ctl.Dial(ctx, socket)
			if err != nil {
				return err
			}
			defer conn.Close()
			r, err := conn.Reload(ctx, check)
			if err != nil {
				return err
			}
			return printReloaded(c.OutOrStdout(), r, check)
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&check, "check", false, "print what would change, and change nothing")
	return c
}

func printReloaded(out io.Writer, r *ctl.Reloaded, check bool) error {
	applied := "applied"
	if check {
		applied = "would apply"
	}
	for _, c := range r.Applied {
		fmt.Fprintf(out, "%s: %v\n", applied, c)
	}
	for _, c := range r.Restart {
		fmt.Fprintf(out, "needs a restart: %v\n", c)
	}
	var err error
	switch {
	case r.Left > 0:
		_, err = fmt.Fprintf(out, "and %d more\n", r.Left)
	case len(r.Applied)+len(r.Restart) == 0:
		_, err = fmt.Fprintln(out, "nothing has changed")
	}
	return err
}

// newNodeChangeCommand returns a command that changes the list of nodes of the running NIC.
func newNodeChangeCommand(
	use, short, long string, change func(*ctl.Conn, context.Context, string) error,
) *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   use + " [ID@]HOST[:PORT]…",
		Short: short,
		Long: long + `

The configuration of the daemon does not change. A reload or a restart restores its list.
Only the daemon's own user and root may change the list.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, nodes []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), reloadWithin)
			defer cancel()
			conn, err := ctl.Dial(ctx, socket)
			if err != nil {
				return err
			}
			defer conn.Close()
			for _, n := range nodes {
				if err := change(conn, ctx, n); err != nil {
					return err
				}
			}
			return nil
		},
	}
	socketFlag(c, &socket)
	return c
}

func newNodesAddCommand() *cobra.Command {
	return newNodeChangeCommand("add", "Add other NICs to the list of the NIC of this host",
		`Adds NICs to the list of nodes of the running NIC. The NIC then calls them, as if 'weft nic
--node' had named each. HOST is an IP or a name, which the daemon resolves once.`,
		(*ctl.Conn).AddNode)
}

func newNodesRemoveCommand() *cobra.Command {
	return newNodeChangeCommand("remove", "Remove NICs from the list of the NIC of this host",
		`Removes NICs from the list of nodes of the running NIC. The NIC no longer calls them. An open
session stays until one of the two NICs ends it. If a removed NIC calls this one, this one
admits it, unless this one is static.`,
		(*ctl.Conn).RemoveNode)
}
