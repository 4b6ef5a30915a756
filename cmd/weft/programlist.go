package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/registry"
)

func newProgramListCommand() *cobra.Command {
	var w whichNICs
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the programs of a NIC, or of all NICs that this one knows",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var all []ctl.ProgramInfo
			err := w.each(c, func(ctx context.Context, client *deploy.Client, nic registry.NICID) error {
				l, err := client.List(ctx, nic)
				all = append(all, l...)
				return err
			})
			if asJSON {
				return joinErrors(printLines(c.OutOrStdout(), all), err)
			}
			if err != nil && len(all) == 0 {
				return err
			}
			return joinErrors(printPrograms(c.OutOrStdout(), all), err)
		},
	}
	w.flags(c, "list the programs of every NIC that this one knows")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// joinErrors returns the first non-nil error.
func joinErrors(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func printPrograms(out io.Writer, all []ctl.ProgramInfo) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROGRAM\tNAME\tNIC\tSTATE\tTRIGGERS\tACTIVATIONS\tABORTS\tLAST ABORT")
	for _, p := range all {
		last := "-"
		if p.Why != "" {
			last = p.Why
			if p.Line > 0 {
				last += fmt.Sprintf(", line %d", p.Line)
			}
		}
		state := p.State
		if p.Resident != "" {
			state += ", resident: " + p.Resident
		}
		if p.Lacks != "" {
			state += " (without " + p.Lacks + ")"
		}
		if p.Guards != "" {
			state += ", guards " + guardedText(&p)
		}
		fmt.Fprintf(w, "%d\t%s\t%v\t%s\t%d\t%d\t%d\t%s\n",
			p.ID, p.Name, p.NIC, state, len(p.Triggers), p.Activations, aborts(&p), last)
	}
	return w.Flush()
}

func aborts(p *ctl.ProgramInfo) (n uint64) {
	for _, k := range p.Aborts {
		n += k
	}
	return n
}

func newProgramProfileCommand() *cobra.Command {
	var w whichNICs
	c := &cobra.Command{
		Use:   "profile PROGRAM",
		Short: "Show the costs and the errors of a program",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, name, err := programTarget(args[0])
			if err != nil {
				return err
			}
			return w.each(c, func(ctx context.Context, client *deploy.Client, nic registry.NICID) error {
				p, err := client.Info(ctx, nic, id, name)
				if err != nil {
					return err
				}
				return printProfile(c.OutOrStdout(), p)
			})
		},
	}
	w.flags(c, "show it on every NIC that this one knows")
	return c
}

// printTime prints how long a program has run, and one of its activations. The driver measures
// no times. So the time of a program in the driver is that of its activations in the virtual
// machine, and their number is not known.
func printTime(w io.Writer, p *ctl.ProgramInfo) {
	of, each := "", ""
	if p.Resident == ctl.ResidentXDP {
		of = " in the virtual machine; the driver takes no times"
	}
	fmt.Fprintf(w, "time\t%v%s\n", time.Duration(p.Time), of)
	if p.Activations == 0 {
		return
	}
	if p.Resident != ctl.ResidentXDP {
		each = fmt.Sprintf(", %v", time.Duration(p.Time/int64(p.Activations)))
	}
	fmt.Fprintf(w, "of one\t%d instructions%s\n", p.Instructions/p.Activations, each)
}

func printProfile(out io.Writer, p *ctl.ProgramInfo) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "program\t%d, %s, %s\n", p.ID, p.Name, p.State)
	fmt.Fprintf(w, "at NIC\t%v\n", p.NIC)
	if p.Resident != "" {
		fmt.Fprintf(w, "resident\t%s\n", p.Resident)
	}
	if p.Lacks != "" {
		fmt.Fprintf(w, "it lacks\t%s\n", p.Lacks)
	}
	fmt.Fprintf(w, "module\t%s: %d instructions, %d words of data\n", p.Hash, p.Code, p.Data)
	fmt.Fprintf(w, "loaded by\t%s\n", ownerText(p))
	fmt.Fprintf(w, "activations\t%d\n", p.Activations)
	fmt.Fprintf(w, "instructions\t%d\n", p.Instructions)
	printTime(w, p)
	fmt.Fprintf(w, "refused\t%d messages\n", p.Refused)
	fmt.Fprintf(w, "displayed\t%d values\n", p.Shown)
	if p.Guards != "" {
		fmt.Fprintf(w, "guards\t%s, and has dropped %d messages\n", guardedText(p), p.Dropped)
	}
	if p.Outgoing {
		fmt.Fprintf(w, "delayed\t%d messages\n", p.Delayed)
	}
	for _, cause := range slices.Sorted(maps.Keys(p.Aborts)) {
		fmt.Fprintf(w, "aborted\t%d times: %s\n", p.Aborts[cause], cause)
	}
	for _, cause := range slices.Sorted(maps.Keys(p.Lost)) {
		fmt.Fprintf(w, "lost\t%d %s\n", p.Lost[cause], cause)
	}
	if p.Line > 0 {
		fmt.Fprintf(w, "last aborted\tin line %d\n", p.Line)
	}
	return w.Flush()
}

// ownerText names the user who loaded a program.
func ownerText(p *ctl.ProgramInfo) string {
	if p.OwnerNIC != 0 {
		return fmt.Sprintf("user %s of NIC %v", p.OwnerUser, p.OwnerNIC)
	}
	return fmt.Sprintf("user %d", p.Owner)
}

// guardedText names the process whose messages a program judges, and their direction.
func guardedText(p *ctl.ProgramInfo) string {
	if p.Outgoing {
		return "outgoing messages of " + p.Guards
	}
	return p.Guards
}
