package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/registry"
)

func newNICInfoCommand() *cobra.Command {
	c := newListCommand("info", "Print the memory map of the NIC of this host, or of another one",
		func(ctx context.Context, n ctl.NIC, out io.Writer, asJSON bool) error {
			m, err := n.Memory(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return printMemoryJSON(out, m)
			}
			return printMemory(out, m)
		})
	c.Flags().Lookup("json").Usage = "print one JSON object"
	return c
}

// printMemoryJSON prints the map as one object. The id has its usual form.
func printMemoryJSON(out io.Writer, m *ctl.Memory) error {
	return json.NewEncoder(out).Encode(struct {
		NIC        registry.NICID `json:"nic"`
		Parameters ctl.Parameters `json:"parameters"`
		VNIs       ctl.VNIs       `json:"vnis"`
		Segments   []ctl.Segment  `json:"segments"`
	}{registry.NICID(m.NIC), m.Parameters, m.VNIs, m.Segments})
}

func printMemory(out io.Writer, m *ctl.Memory) error {
	p, v := &m.Parameters, &m.VNIs
	fmt.Fprintf(out, "NIC %v\n", registry.NICID(m.NIC))
	fmt.Fprintf(out, "N %d, M %d, K %d, Q %d of a VNI; P %d processes, D %d driver commands, R %d other NICs, "+
		"T %d names and G %d memberships of each; heads are told every %d\n",
		p.N, p.M, p.K, p.Q, p.P, p.D, p.R, p.T, p.G, p.HeadBatch)
	fmt.Fprintf(out, "VNIs: %d prepared, %d idle; %d used, %d of them made on demand\n",
		v.Prepared, v.Idle, v.Used, v.OnTheFly)
	fmt.Fprintf(out, "an attached, idle VNI takes %s of memory (at most %s), %s of it shared, "+
		"and %s of address space\n\n",
		bytesText(v.IdleBytes), bytesText(v.IdleBytesLimit), bytesText(v.IdleSharedBytes), bytesText(v.MappedBytes))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SEGMENT\tPART\tENTRIES\tUSED\tBYTES\tIN USE")
	for _, s := range m.Segments {
		fmt.Fprintf(w, "%s\t\t\t\t%s\t%s\n", s.Name, bytesText(s.Bytes), bytesText(s.InUse))
		for _, p := range s.Parts {
			fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\t%s\n",
				p.Name, numberText(p.Entries), numberText(p.Used), bytesText(p.Bytes), bytesText(p.InUse))
		}
	}
	return w.Flush()
}

// numberText formats n, or "-" for 0, which means nothing.
func numberText(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// bytesText formats a number of bytes for people.
func bytesText(n int64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(int64(1)<<u.shift), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
