package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchLoss is weft bench loss.
func newBenchLoss() *cobra.Command {
	o := bench.LossOptions{Loss: 0.01}
	var asJSON bool
	var on, hdr string
	c := &cobra.Command{
		Use:   bench.KindLoss + " [flags]",
		Short: "Measure what lost packets cost: goodput, and round trips",
		Long: `Measures a stream between two hosts whose network loses packets, each way, beside the
same stream between two hosts with the same programs attached that lose none; and
round trips of 64 bytes with the loss. The hosts are made for it (needs root), and
each has half of the processors.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Loss == 1 {
				return usagef("--loss 100%%: expected less, since nothing would arrive")
			}
			if err := bench.CheckRounds(o.Time, o.Rounds); err != nil {
				return &exitError{exitUsage, err}
			}
			if o.HDR, err = writeHDR(hdr); err != nil {
				return err
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			warn(c)
			r, err := bench.RunLoss(c.Context(), o)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			us := func(ns int64) float64 { return float64(ns) / 1e3 }
			_, err = fmt.Fprintf(out, "# weft bench %s: link %s, %s, messages of %d bytes, %.2f %% lost each way\n# %10s %12s %14s %11s %11s %11s %11s\n%12.2f %12.2f %14.3f %11.2f %11.2f %11.2f %11.2f\n",
				r.Bench, r.Link, r.Deployment, r.Size, 100*r.Lost, "MB/s", "at no loss", "goodput ratio", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs",
				r.Goodput/1e6, r.Clean/1e6, r.Ratio, us(r.P50), us(r.P90), us(r.P99), us(r.P999))
			return err
		},
	}
	fs := c.Flags()
	choiceFlag(fs, &o.Link, "link", bench.LinkUDP, []string{bench.LinkUDP, bench.LinkXDP}, "what carries the frames")
	choiceFlag(fs, &o.Deployment, "deployment", bench.DeployedEmbedded, []string{bench.DeployedEmbedded, bench.DeployedDaemon}, "where the NICs are: in the processes, or in daemons")
	choiceFlag(fs, &on, "testbed", testbedVeth, []string{testbedVeth}, "where the two sides are: on hosts made for it")
	shareFlag(fs, &o.Loss, "loss", "packets that are lost, each way (default 1%)")
	mtuFlag(fs, &o.MTU)
	sizeFlag(fs, &o.Size, 1<<20, "length of a message of the stream in bytes")
	durationFlag(fs, &o.Time, "time", 5*time.Second, time.Millisecond, time.Hour, "how long to measure each of the three")
	intFlag(fs, &o.Rounds, "rounds", 50, 1, 1000, "how often they take turns")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	hdrFlag(fs, &hdr)
	return c
}

// newBenchIdle is weft bench idle.
func newBenchIdle() *cobra.Command {
	var o bench.IdleOptions
	var asJSON, child bool
	var socket string
	var first, count int
	c := &cobra.Command{
		Use:   bench.KindIdle + " [flags]",
		Short: "Measure what a NIC daemon costs, and its processes, when nothing is to be done",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			out := c.OutOrStdout()
			if child {
				return bench.BeIdle(c.Context(), socket, first, count, c.InOrStdin(), out)
			}
			if err := spread(c.Flags(), &o); err != nil {
				return err
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			warn(c)
			r, err := bench.RunIdle(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			_, err = fmt.Fprintf(out, "# weft bench %s: %d processes that wait, %.1f s\n# %10s %12s %12s   %% of a core\n%12.4f %12.4f %12.4f\n",
				r.Bench, r.Processes, r.Seconds, "daemon", "processes", "all", 100*r.Daemon, 100*r.Attached, 100*r.Core)
			return err
		},
	}
	fs := c.Flags()
	intFlag(fs, &o.Processes, "processes", 128, 1, 1024, "how many processes are attached")
	intFlag(fs, &o.Programs, "programs", 4, 1, 128, "how many programs they are spread over; fewer if there are fewer processes")
	durationFlag(fs, &o.Time, "time", 5*time.Second, time.Millisecond, time.Hour, "how long to measure")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	fs.BoolVar(&child, "child", false, "be one of the programs")
	fs.StringVar(&socket, "socket", "", "of the daemon that serves them")
	fs.IntVar(&first, "first", 0, "index of the first process")
	fs.IntVar(&count, "count", 0, "how many")
	for _, name := range []string{"child", "socket", "first", "count"} {
		fs.Lookup(name).Hidden = true
	}
	return c
}

// spread sees to it that each program has a process: one without would end at once, and an ended program has no processor clock.
func spread(fs *pflag.FlagSet, o *bench.IdleOptions) error {
	if fs.Changed("programs") && o.Programs > o.Processes {
		return usagef("--programs %d with --processes %d: expected at most as many programs as processes", o.Programs, o.Processes)
	}
	o.Programs = min(o.Programs, o.Processes)
	return nil
}

// newBenchPoll is weft bench poll.
func newBenchPoll() *cobra.Command {
	o := bench.PollOptions{Processes: []int{1, 128, 1024}}
	var asJSON bool
	c := &cobra.Command{
		Use:   bench.KindPoll + " [flags]",
		Short: "Measure a poll of an engine that serves idle processes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			warn(c)
			if !asJSON {
				fmt.Fprintf(out, "# weft bench %s: one poll, while all processes are idle; %v each\n# %8s %12s %12s\n", bench.KindPoll, o.Time, "idle", "polls", "ns a poll")
			}
			return bench.RunPoll(c.Context(), o, func(r bench.PollRow) error {
				if asJSON {
					return json.NewEncoder(out).Encode(r)
				}
				_, err := fmt.Fprintf(out, "%10d %12d %12.1f\n", r.Processes, r.Iterations, r.Poll)
				return err
			})
		},
	}
	fs := c.Flags()
	fs.Var(&checkedFlag{
		kind: "N,…",
		text: "1,128,1024",
		want: "whole numbers from 1 to 4096, with commas between them",
		set: func(s string) bool {
			o.Processes = nil
			for word := range strings.SplitSeq(s, ",") {
				n, err := strconv.Atoi(word)
				if err != nil || n < 1 || n > 4096 {
					return false
				}
				o.Processes = append(o.Processes, n)
			}
			return true
		},
	}, "processes", "how many processes are idle")
	durationFlag(fs, &o.Time, "time", time.Second, time.Millisecond, time.Hour, "how long to measure with each number")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object for each number")
	return c
}

// warn says what spoils a measurement.
func warn(c *cobra.Command) {
	for _, why := range bench.Spoils() {
		fmt.Fprintf(c.ErrOrStderr(), "weft: warning: %s\n", why)
	}
}

func hdrFlag(fs *pflag.FlagSet, file *string) {
	fs.Var(&checkedFlag{
		kind: "FILE",
		want: "the name of a file",
		set: func(s string) bool {
			*file = s
			return s != ""
		},
	}, "hdr", "write the distribution of the round trips, in µs, to FILE, as HdrHistogram's plotters read it")
}

// writeHDR returns what writes a distribution to a file; nil if there is none to write to. That it can be written is tried before
// anything is measured.
func writeHDR(name string) (write func(int, *hdrhistogram.Histogram) error, err error) {
	if name == "" {
		return nil, nil
	}
	if err := tryWriting(name); err != nil {
		return nil, usagef("--hdr: %v", err)
	}
	return func(_ int, h *hdrhistogram.Histogram) error {
		var text bytes.Buffer
		if _, err := h.PercentilesPrint(&text, 5, 1000); err != nil {
			return err
		}
		return os.WriteFile(name, text.Bytes(), 0o666)
	}, nil
}

// tryWriting says why a file cannot be written. It leaves it as it was, or not there: what is measured then may fail.
func tryWriting(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		return errors.Join(f.Close(), os.Remove(name))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if f, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return err
	}
	return f.Close()
}
