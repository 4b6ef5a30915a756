package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/weftnet/weft/internal/histogram"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/vni"
)

// moreOf returns the function that reads the values of --peers or --loop from the memory that a NIC
// shares.
func moreOf(mem []byte, o *statOptions) (func(*reading) error, error) {
	switch {
	case !o.peers && !o.loop:
		return func(*reading) error { return nil }, nil
	case len(mem) < vni.StatBytes:
		return nil, fmt.Errorf("the daemon shares %d bytes of counters; expected %d: use the weft of the same build",
			len(mem), vni.StatBytes)
	case o.peers:
		table, err := vni.OpenPeerTable(mem[vni.PeersAt:])
		return func(r *reading) error {
			r.peers = readPeers(table)
			return nil
		}, err
	}
	page, err := vni.OpenLoopPage(mem[vni.LoopAt:])
	return func(r *reading) error {
		r.loop = new(vni.Loop)
		if !page.Load(r.loop) {
			return errors.New("the NIC changes its measurements all the time; try again")
		}
		return nil
	}, err
}

// printLoop prints the heading, and a line each for polls and lags. With an earlier reading, it
// prints the counts since then. The longest one is always that since the start of the NIC.
func printLoop(out io.Writer, heading *bytes.Buffer, last, now *reading) error {
	l := *now.loop
	if last != nil {
		l.Polls, l.Lags = l.Polls.Since(&last.loop.Polls), l.Lags.Since(&last.loop.Lags)
	}
	w := tabwriter.NewWriter(heading, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tCOUNT\tMEAN\tP50\tP90\tP99\tP99.9\tLONGEST\tAT")
	printDurations(w, "polls with work", &l.Polls, l.LongestPollAt)
	printDurations(w, "lag", &l.Lags, l.LongestLagAt)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := out.Write(heading.Bytes())
	return err
}

func printDurations(w io.Writer, name string, h *histogram.Histogram, longestAt int64) {
	at := "-"
	if longestAt != 0 {
		at = time.Unix(0, longestAt).Format("2006-01-02 15:04:05.000")
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, h.Count, tripText(h.Mean()),
		tripText(h.Quantile(0.5)), tripText(h.Quantile(0.9)), tripText(h.Quantile(0.99)), tripText(h.Quantile(0.999)),
		tripText(time.Duration(h.Most)), at)
}

// durationsJSON is tripsJSON with the time of the longest duration.
type durationsJSON struct {
	tripsJSON
	LongestAt *time.Time `json:"longest_at,omitempty"`
}

func durationsOf(h *histogram.Histogram, longestAt int64) durationsJSON {
	d := durationsJSON{tripsJSON: tripsOf(h)}
	if longestAt != 0 {
		at := time.Unix(0, longestAt)
		d.LongestAt = &at
	}
	return d
}

// printLoopJSON prints one object on one line: time, NIC, polls and lags.
func printLoopJSON(out io.Writer, now *reading) error {
	l := now.loop
	return json.NewEncoder(out).Encode(struct {
		Time        time.Time      `json:"time"`
		NIC         registry.NICID `json:"nic"`
		Incarnation uint64         `json:"incarnation,string"`
		Polls       durationsJSON  `json:"polls"`
		Lag         durationsJSON  `json:"lag"`
	}{now.at, registry.NICID(now.info.NIC), now.info.Incarnation, durationsOf(&l.Polls, l.LongestPollAt),
		durationsOf(&l.Lags, l.LongestLagAt)})
}
