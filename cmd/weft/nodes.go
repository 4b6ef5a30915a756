package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

// A lister asks a NIC for a list, through the daemon of this host, and prints it.
type lister func(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error

// newListCommand returns a command that prints a list, as a table or as JSON.
func newListCommand(use, short string, print lister) *cobra.Command {
	var socket string
	var asJSON bool
	var called string
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
			defer cancel()
			conn, err := ctl.Dial(ctx, socket)
			if err != nil {
				return err
			}
			defer conn.Close()
			id, err := nicCalled(ctx, conn, called)
			if err != nil {
				return err
			}
			return print(ctx, conn.NIC(uint64(id)), c.OutOrStdout(), asJSON)
		},
	}
	socketFlag(c, &socket)
	nicFlag(c.Flags(), &called)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, and nothing for an empty list")
	return c
}

func newNodesCommand() *cobra.Command {
	var check bool
	c := newListCommand("nodes", "List the NICs that the NIC of this host, or another one, knows",
		func(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
			if check {
				return printChecks(ctx, n, out, asJSON)
			}
			return printNodes(ctx, n, out, asJSON)
		})
	c.AddCommand(newNodesAddCommand(), newNodesRemoveCommand())
	c.Flags().BoolVar(&check, "check", false,
		"send frames of both sizes to each NIC, and report which return; exit with status 1 if some do not")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if check && c.Flags().Changed("nic") {
			return usagef(
				"--check with --nic: expected one of them, since a NIC checks only for tools of its own host")
		}
		return nil
	}
	return c
}

// printChecks prints how the connectivity checks ended (USNIC-61). It returns an error if one
// failed.
func printChecks(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
	all, err := n.Check(ctx)
	if err != nil {
		return err
	}
	failed := 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(w, "NIC\tADDRESS\tCHECK")
	}
	for _, k := range all {
		result := "ok"
		if !k.OK {
			failed++
			result = k.Text
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", nicText(k.ID), k.Address, result)
	}
	if asJSON {
		err = printLines(out, all)
	} else {
		err = w.Flush()
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d NICs failed the check", failed, len(all))
	}
	return err
}

// nicText returns a NIC's id, if the NIC has ever told it.
func nicText(id registry.NICID) string {
	if id == 0 {
		return "not known yet"
	}
	return id.String()
}

func printNodes(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
	nodes, err := n.Nodes(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, nodes)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NIC\tNAME\tADDRESS\tPOSITION\tSTATE\tPROCESSES\tRTT\tFRAME\tGUARD\tID BY")
	for _, n := range nodes {
		rtt := "-"
		if n.RTT != 0 {
			rtt = time.Duration(n.RTT).Round(100 * time.Nanosecond).String()
		}
		position := "-"
		if len(n.Position) == 2 {
			position = fmt.Sprintf("%d,%d", n.Position[0], n.Position[1])
		}
		frame := "-"
		if n.Frame != 0 {
			frame = fmt.Sprint(n.Frame)
		}
		if n.Frame < n.WholeFrame { // the path is narrow, or has not been tried yet
			frame = fmt.Sprintf("%d of %d", n.Frame, n.WholeFrame)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			nicText(n.ID), cmp.Or(n.Name, "-"), addressText(&n), position, n.State, n.Processes, rtt, frame,
			guardText(&n), cmp.Or(n.Binding, "-"))
	}
	return w.Flush()
}

// addressText returns the address at which a node is called. If its frames come from another
// address, it adds that one.
func addressText(n *ctl.Node) string {
	if n.Elsewhere == "" {
		return n.Address
	}
	return n.Address + ", but frames arrive from " + n.Elsewhere
}

// guardText names the AEAD that seals the frames of a node, or says that there is none.
func guardText(n *ctl.Node) string {
	switch n.Guard {
	case "":
		return "-"
	case ctl.GuardPlain:
		return "PLAIN"
	case ctl.GuardSealed:
		return n.Suite
	}
	return n.Guard
}

func newPsCommand() *cobra.Command {
	var fabric, thrown bool
	c := newListCommand("ps", "List the processes of the NIC of this host, of another one, or of the whole fabric",
		func(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
			switch {
			case thrown:
				return printThrown(ctx, n, out, asJSON)
			case fabric:
				return printNames(ctx, n, out, asJSON)
			}
			return printProcesses(ctx, n, out, asJSON)
		})
	c.Flags().BoolVar(&fabric, "fabric", false, "list the processes of every NIC that the NIC knows")
	c.Flags().BoolVar(&thrown, "thrown-out", false,
		"list the processes that the NIC of this host has thrown out recently, and the reasons")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		for _, other := range []string{"fabric", "nic"} {
			if thrown && c.Flags().Changed(other) {
				return usagef("--thrown-out with --%s: expected one of them, "+
					"since a NIC lists thrown-out processes only for tools of its own host",
					other)
			}
		}
		return nil
	}
	return c
}

func printProcesses(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
	all, err := n.Processes(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSLOT\tPID\tSENT\tRECEIVED\tMEMORY\tCOLLECTIVES\tTURNS\t"+
		"SENDING\tPOSTED\tUNEXPECTED\tOLDEST\tSTAGED\tREGIONS\tREFUSED\tNOTE")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%d B\t%d B\t%d\t%s\n",
			p.Name, p.Slot, p.PID, p.Sent, p.Received, p.Memory, p.Collectives, p.Turns,
			p.Sending, p.Posted, p.Unexpected, time.Duration(p.Oldest).Round(time.Millisecond), p.Staged, p.RegionBytes,
			p.Refusals(), noteOn(&p))
	}
	return w.Flush()
}

// slowAfter is how long a message may wait for a process before ps calls the process slow.
const slowAfter = time.Second

// noteOn returns remarks about a process: that others wait for it, that it takes more than its
// share, or that its requests are refused, with the most frequent cause.
func noteOn(p *ctl.Process) string {
	var notes []string
	if time.Duration(p.Oldest) >= slowAfter {
		notes = append(notes, "slow to receive")
	}
	if p.Crowded > 0 {
		notes = append(notes, "crowds others out")
	}
	if p.EmptyRings > p.Rings/2 && p.EmptyRings > 2 {
		notes = append(notes, "rings without a command")
	}
	most := ""
	for _, cause := range slices.Sorted(maps.Keys(p.Refused)) {
		if most == "" || p.Refused[cause] > p.Refused[most] {
			most = cause
		}
	}
	if most != "" {
		notes = append(notes, "refused: "+most)
	}
	if len(notes) == 0 {
		return "-"
	}
	return strings.Join(notes, ", ")
}

func printThrown(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
	all, err := n.Thrown(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSLOT\tPID\tUID\tTIMES\tLAST\tWHY")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n",
			p.Name, p.Slot, p.PID, p.UID, p.Times, time.Unix(0, p.Last).Format(time.DateTime), p.Why)
	}
	return w.Flush()
}

func printNames(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
	all, err := n.Names(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tNIC\tSLOT\tSTATE")
	for _, p := range all {
		state := "reachable"
		if p.Unreachable {
			state = "unreachable"
		}
		fmt.Fprintf(w, "%s\t%v\t%d\t%s\n", p.Name, p.NIC, p.Slot, state)
	}
	return w.Flush()
}

func newGroupsCommand() *cobra.Command {
	return newListCommand("groups",
		"List the members of all groups that the NIC of this host, or another one, knows",
		func(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
			all, err := n.Groups(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return printLines(out, all)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "GROUP\tEPOCH\tSIZE\tSTATE\tMEMBER\tNIC")
			for _, m := range all {
				fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%v\n", m.Group, m.Epoch, m.Size, m.State, m.Name, m.NIC)
			}
			return w.Flush()
		})
}

// printLines prints a list as JSON, one object per line.
func printLines[T any](out io.Writer, all []T) error {
	e := json.NewEncoder(out)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return err
		}
	}
	return nil
}
