package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchPages is weft bench pages, pagein and pageout.
func newBenchPages(kind, short string) *cobra.Command {
	o := bench.PagesOptions{Kind: kind}
	var asJSON, child bool
	var page int64
	c := &cobra.Command{
		Use:   kind + " [flags]",
		Short: short,
		Long: short + `.

The page server is another program on this host, with a NIC of its own.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			out := c.OutOrStdout()
			if child {
				return bench.ServePages(c.Context(), o.Link, c.InOrStdin(), out)
			}
			if page > 8192 {
				return usagef("--page is %d: expected 4096 or 8192", page)
			}
			o.Page = int(page)
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			warn(c)
			if kind == bench.KindPages {
				rows, err := bench.RunCopies(c.Context(), o)
				if err != nil {
					return err
				}
				return printCopies(out, rows, asJSON)
			}
			r, err := bench.RunPages(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			_, err = fmt.Fprintf(out, "# weft bench %s: link %s, pages of %d bytes, %d at a time\n# %10s %12s %12s %14s   µs\n%12.2f %12.2f %12.0f %14.2f\n",
				r.Bench, r.Link, r.Page, r.Depth, "p50", "p99", "pages/s", "a call's p50", float64(r.P50)/1e3, float64(r.P99)/1e3, r.Rate, float64(r.Call)/1e3)
			return err
		},
	}
	fs := c.Flags()
	choiceFlag(fs, &o.Link, "link", bench.LinkUDP, []string{bench.LinkUDP, bench.LinkShm}, "what carries the frames")
	if kind != bench.KindPages {
		bytesFlag(fs, &page, "page", 4096, 4096, "size of a page: 4KiB or 8KiB")
		intFlag(fs, &o.Depth, "depth", 1, 1, 256, "how many pages are under way at a time")
		durationFlag(fs, &o.Time, "time", 5*time.Second, time.Millisecond, time.Hour, "how long to measure")
	}
	fs.BoolVar(&asJSON, "json", false, "print JSON, an object a line")
	fs.BoolVar(&child, "child", false, "be the program with the page server")
	fs.Lookup("child").Hidden = true
	return c
}

func printCopies(out io.Writer, rows []bench.CopiesRow, asJSON bool) error {
	if !asJSON {
		fmt.Fprintf(out, "# weft bench %s: link %s\n# %-12s %16s %12s\n", bench.KindPages, rows[0].Link, "scenario", "copies of a page", "p50 µs")
	}
	for _, r := range rows {
		if asJSON {
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(out, "%-14s %16.3f %12.2f\n", r.Scenario, r.Copies, float64(r.P50)/1e3); err != nil {
			return err
		}
	}
	return nil
}
