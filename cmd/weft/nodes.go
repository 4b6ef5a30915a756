package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// newListCommand is a command that asks the daemon for a list and prints it, as a table or as JSON.
func newListCommand(use, short string, print func(ctx context.Context, conn *ctl.Conn, out io.Writer, asJSON bool) error) *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
			defer cancel()
			conn, err := dialNIC(ctx, socket)
			if err != nil {
				return err
			}
			defer conn.Close()
			return print(ctx, conn, c.OutOrStdout(), asJSON)
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

func newNodesCommand() *cobra.Command {
	return newListCommand("nodes", "List the NICs that the NIC of this host knows", printNodes)
}

func printNodes(ctx context.Context, conn *ctl.Conn, out io.Writer, asJSON bool) error {
	nodes, err := conn.Nodes(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, nodes)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NIC\tADDRESS\tSTATE\tPROCESSES\tRTT")
	for _, n := range nodes {
		id, rtt := "not known yet", "-"
		if n.ID != 0 {
			id = registry.NICID(n.ID).String()
		}
		if n.RTT != 0 {
			rtt = time.Duration(n.RTT).Round(100 * time.Nanosecond).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", id, n.Address, n.State, n.Processes, rtt)
	}
	return w.Flush()
}

func newPsCommand() *cobra.Command {
	var fabric bool
	c := newListCommand("ps", "List the processes of the NIC of this host, or of the whole fabric",
		func(ctx context.Context, conn *ctl.Conn, out io.Writer, asJSON bool) error {
			if fabric {
				return printNames(ctx, conn, out, asJSON)
			}
			return printProcesses(ctx, conn, out, asJSON)
		})
	c.Flags().BoolVar(&fabric, "fabric", false, "list the processes of every NIC that this one knows of")
	return c
}

func printProcesses(ctx context.Context, conn *ctl.Conn, out io.Writer, asJSON bool) error {
	all, err := conn.Processes(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSLOT\tPID\tPOSTED\tUNEXPECTED\tSTAGED\tREGIONS")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d B\t%d\n", p.Name, p.Slot, p.PID, p.Posted, p.Unexpected, p.Staged, p.Regions)
	}
	return w.Flush()
}

func printNames(ctx context.Context, conn *ctl.Conn, out io.Writer, asJSON bool) error {
	all, err := conn.Names(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tNIC\tSLOT")
	for _, n := range all {
		fmt.Fprintf(w, "%s\t%v\t%d\n", n.Name, registry.NICID(n.NIC), n.Slot)
	}
	return w.Flush()
}

// printLines prints a list as JSON, one object a line.
func printLines[T any](out io.Writer, all []T) error {
	e := json.NewEncoder(out)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return err
		}
	}
	return nil
}
