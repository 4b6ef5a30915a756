package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft"
)

// Fairness measures how evenly one NIC serves many processes that all want as much as they can
// get. Two daemons on this host are joined by loopback. The processes are attachments of several
// programs:
//
//	┌─ programs ─────────────────┐   NIC under test          other NIC    ┌─ program ─┐
//	│ 0 ─► 1 ─► 2 ─► … n-1 ─► 0  │ ─── local, by copy                     │  16 sinks │
//	│ └────┴────┴──────────────────────────────── over the link ─────────► │           │
//	└────────────────────────────┘                                        └───────────┘
//
// Each process sends to its neighbour on the same NIC and to a sink on the other NIC, with
// fairWindow messages in flight to each, and receives from its other neighbour. Its figure is
// the bytes of messages that it has sent and received.

// KindFairness is the kind of this measurement.
const KindFairness = "fairness"

// FairOptions say how many processes there are, and what they send.
type FairOptions struct {
	Processes int
	Programs  int // over which the processes are spread
	Size      int // bytes of a message
	Time      time.Duration
	Self      string // path of the weft binary
	Sealing
}

// FairRow holds the result. Rates are bytes per second of one process; Total is over all.
type FairRow struct {
	Bench     string  `json:"bench"`
	Sealed    bool    `json:"sealed"` // the links between NICs
	Processes int     `json:"processes"`
	Size      int     `json:"size"` // bytes of a message
	Jain      float64 `json:"jain"`
	Least     float64 `json:"min_bytes_per_s"`
	Median    float64 `json:"median_bytes_per_s"`
	Most      float64 `json:"max_bytes_per_s"`
	Total     float64 `json:"bytes_per_s"`
}

// sinks is how many processes of the other NIC receive. A sink has requests of a sixteenth of
// the senders. This stays below the number that one NIC may have open at one process.
const sinks = 16

// fairWindow is how many messages each process has in flight to each of its two receivers.
const fairWindow = 16

// mostTakes bounds the receives that a process has posted.
const mostTakes = 32

const (
	fairApp = "weft-fair"
	sinkApp = "weft-sink"
)

// RunFairness sets everything up, and measures.
func RunFairness(ctx context.Context, o FairOptions) (r FairRow, err error) {
	var down undo
	defer down.end(ctx, &err)
	more := fmt.Sprintf("max_processes = %d\n", max(o.Processes, 128))
	far, err := down.startDaemon(ctx, place{self: o.Self, listen: "127.0.0.1:0", config: more, sealing: o.Sealing})
	if err != nil {
		return r, err
	}
	near, err := down.startDaemon(ctx, place{self: o.Self, listen: "127.0.0.1:0", nodes: []weft.Node{{Addr: far.addr}},
		config: more, sealing: o.Sealing})
	if err != nil {
		return r, err
	}
	sinkPlan := crewPlan{Socket: far.socket, App: sinkApp, Count: sinks, Size: o.Size,
		Takes: min(fairWindow*((o.Processes+sinks-1)/sinks), mostTakes)}
	if _, _, err := down.startCrew(ctx, o.Self, KindFairness, sinkPlan); err != nil {
		return r, err
	}
	crews, err := down.spread(ctx, o.Self, KindFairness, o.Processes, o.Programs,
		crewPlan{Socket: near.socket, App: fairApp, Size: o.Size,
			To: []crewTo{{sinkApp, 0, sinks}, {fairApp, 1, o.Processes}}, Window: fairWindow,
			Takes: min(2*fairWindow, mostTakes)})
	if err != nil {
		return r, err
	}
	rates, err := measureCrews(ctx, crews, o.Time)
	if err != nil {
		return r, err
	}
	return fairRow(&o, rates), nil
}

// measureCrews starts all crews and returns the rate of each process. None stops before all have
// been measured, so all are under the same load.
func measureCrews(ctx context.Context, crews []*crew, d time.Duration) (rates []float64, err error) {
	before, after := make([]crewReport, len(crews)), make([]crewReport, len(crews))
	for _, turn := range []struct {
		what string
		into []crewReport
		then time.Duration
	}{{"go", before, warmUp(d)}, {"report", before, d}, {"report", after, 0},
		{"drop", make([]crewReport, len(crews)), 0}} {
		for i, c := range crews {
			if err := c.ask(turn.what, &turn.into[i]); err != nil {
				return nil, err
			}
		}
		if err := sleep(ctx, turn.then); err != nil {
			return nil, err
		}
	}
	for i := range crews {
		for k, bytes := range after[i].Bytes {
			rates = append(rates, float64(bytes-before[i].Bytes[k])/(after[i].Seconds-before[i].Seconds))
		}
	}
	return rates, nil
}

func fairRow(o *FairOptions, rates []float64) FairRow {
	slices.Sort(rates)
	r := FairRow{Bench: KindFairness, Sealed: o.Sealed, Processes: o.Processes, Size: o.Size, Jain: Jain(rates),
		Least:  rates[0],
		Median: rates[len(rates)/2], Most: rates[len(rates)-1]}
	for _, x := range rates {
		r.Total += x
	}
	return r
}

// Jain returns the fairness index of shares: 1 if all are equal, 1/n if one of n has everything,
// 0 if all are 0.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
