package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
)

func newNICLinksCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "links",
		Short: "List the links of this host's daemon, each with its own NIC",
		Long: `Lists the links that the daemon has started ('weft nic --link fast0,slow0'), in their order. Each
link is a separate network, with its own NIC id, processes and peers. A tool asks the first link,
unless its --socket names another:
  weft stat --socket '#slow0'
  weft ps --socket /run/weft/nic.sock#slow0
A program names its link when it attaches, or takes it from WEFT_LINK.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
			defer cancel()
			conn, err := ctl.DialLink(ctx, socket, "")
			if err != nil {
				return err
			}
			defer conn.Close()
			return printLinks(ctx, conn, c.OutOrStdout(), asJSON)
		},
	}
	socketFlag(c, &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

func printLinks(ctx context.Context, conn *ctl.Conn, out io.Writer, asJSON bool) error {
	all, err := conn.Links(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines(out, all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LINK\tKIND\tNIC\tADDRESS\tPROCESSES")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%d\n", l.Name, l.Kind, l.NIC, l.Address, l.Processes)
	}
	return w.Flush()
}
