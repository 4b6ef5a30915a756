package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/weftnet/weft"
)

// Kind is a kind of measurement between two processes, and an entry in kinds. All kinds have the
// same Options: the places of the two processes, their link, and the limit for comparison.
type Kind struct {
	Name        string
	Short       string // what its command does
	Size        int    // of a message in bytes, if the user gives none
	Least, Most int    // bytes
	Trips       bool   // it measures round trips, which have a distribution

	what    string // above the columns
	work    func(c *Client, ctx context.Context, size int, d time.Duration) (sample, error)
	fill    func(r *Row, of []sample) // sets the fields of the kind
	columns []column                  // the first is compared with a limit
	// the name of the barest program that goes the same way; nil if there is none
	limit func(o *Options, size int) string
}

// column is a figure of a row, formatted for people.
type column struct {
	name          string
	width, digits int
	of            func(r *Row) float64
}

// Kinds of measurement between two processes.
const (
	KindLatency   = "latency"   // the time from a message to its echo
	KindRate      = "rate"      // messages per second, one way
	KindBandwidth = "bandwidth" // bytes per second, one way
	KindDatagrams = "datagrams" // datagrams that arrive per second, one way
)

var kinds = []Kind{
	{
		Name: KindLatency, Short: "Measure round trips between two processes", Size: 64, Most: MaxSize, Trips: true,
		what: "round trip of a message and its echo",
		work: func(c *Client, ctx context.Context, size int, d time.Duration) (sample, error) {
			h, err := c.roundTrips(ctx, size, d)
			if err != nil {
				return sample{}, err
			}
			return sample{Iterations: h.TotalCount(), Times: h}, nil
		},
		fill: func(r *Row, of []sample) { l := latencies(of); r.Latency = &l },
		columns: []column{
			{"p50 µs", 11, 2, func(r *Row) float64 { return micros(r.P50) }},
			{"p90 µs", 11, 2, func(r *Row) float64 { return micros(r.P90) }},
			{"p99 µs", 11, 2, func(r *Row) float64 { return micros(r.P99) }},
			{"p99.9 µs", 11, 2, func(r *Row) float64 { return micros(r.P999) }},
		},
		limit: limitOfTrips,
	},
	{
		Name: KindRate, Short: "Measure messages per second from one process to another", Size: 64, Most: MaxSize,
		what: "messages a second, one way", work: (*Client).streamed,
		fill:    func(r *Row, of []sample) { r.Rate = &Rate{medianOf(of, sample.rate)} },
		columns: []column{{"messages/s", 14, 0, func(r *Row) float64 { return r.MessagesPerSecond }}},
		limit: limitByLink(map[string]string{LinkShm: "ring", LinkNone: "ring", LinkUDP: "udp-rate",
			LinkXDP: "xdp-rate"}),
	},
	{
		// Least is 1: empty messages have no bandwidth
		Name: KindBandwidth, Short: "Measure bytes per second from one process to another", Size: 1 << 20, Least: 1,
		Most: MaxSize,
		what: "bytes of messages a second, one way", work: (*Client).streamed,
		fill:    func(r *Row, of []sample) { r.Bandwidth = &Bandwidth{medianOf(of, sample.bandwidth)} },
		columns: []column{{"MB/s", 14, 2, func(r *Row) float64 { return r.BytesPerSecond / 1e6 }}},
		limit: limitByLink(map[string]string{LinkShm: "stream", LinkNone: "stream", LinkUDP: "udp-bandwidth",
			LinkXDP: "xdp-bandwidth"}),
	},
	{
		Name:  KindDatagrams,
		Short: "Measure datagrams from one process to another: arrivals per second, and losses",
		Size:  64, Most: weft.MaxDatagram,
		what: "datagrams that arrive a second, one way", work: (*Client).datagrams,
		fill: func(r *Row, of []sample) {
			r.Rate, r.Lost = &Rate{medianOf(of, sample.rate)}, &Lost{medianOf(of,
				func(s sample) float64 { return s.Lost })}
		},
		columns: []column{{"datagrams/s", 14, 0, func(r *Row) float64 { return r.MessagesPerSecond }},
			{"lost %", 8, 2, func(r *Row) float64 { return 100 * r.Share }}},
	},
	{
		Name: KindStream, Short: "Compare streams with messages and TCP: echoes, and one-way writes",
		Size: 64, Least: 1, Most: 16 << 20,
		what: "a write and its echo, and writes one way, over a stream, by messages, and over TCP, in turns",
		work: (*Client).streams,
		fill: func(r *Row, of []sample) { r.Streams = of[0].Streams },
		columns: []column{
			{"echo µs", 9, 2, func(r *Row) float64 { return micros(r.StreamP50) }},
			{"message", 9, 2, func(r *Row) float64 { return micros(r.MessageP50) }},
			{"TCP", 9, 2, func(r *Row) float64 { return micros(r.TCPP50) }},
			{"by message", 10, 2, func(r *Row) float64 { return r.ToMessage }},
			{"by TCP", 7, 2, func(r *Row) float64 { return r.ToTCP }},
			{"MB/s", 9, 1, func(r *Row) float64 { return r.StreamBytes / 1e6 }},
			{"message", 9, 1, func(r *Row) float64 { return r.MessageBytes / 1e6 }},
			{"TCP", 9, 1, func(r *Row) float64 { return r.TCPBytes / 1e6 }},
			{"by message", 10, 2, func(r *Row) float64 { return r.ByMessage }},
			{"by TCP", 7, 2, func(r *Row) float64 { return r.ByTCP }},
		},
	},
}

// Kinds lists the kinds of measurement between two processes.
func Kinds() []Kind { return kinds }

// kindOf returns the entry of a name; a zero one if there is none.
func kindOf(name string) *Kind {
	if name == kindRecovery {
		return &Kind{Name: name, work: (*Client).recovery}
	}
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	return &Kind{}
}

func micros(ns int64) float64 { return float64(ns) / float64(time.Microsecond) }

// streamed makes a sample of a stream.
func (c *Client) streamed(ctx context.Context, size int, d time.Duration) (sample, error) {
	st, err := c.Stream(ctx, size, d)
	if err != nil {
		return sample{}, err
	}
	return sample{Iterations: st.Messages, Rate: st.MessagesPerSecond(), Bandwidth: st.BytesPerSecond()}, nil
}

// limitByLink returns the limits of one-way measurements.
func limitByLink(names map[string]string) func(*Options, int) string {
	return func(o *Options, _ int) string { return o.sealedLimit(names[o.Link]) }
}

// limitOfTrips returns the limit of round trips.
func limitOfTrips(o *Options, size int) string {
	switch {
	case o.Deployment == DeployedShared:
		return "chain-shm"
	case o.Link == LinkShm && size > 64:
		return "copy"
	case o.Link == LinkShm:
		return "line"
	case o.Deployment == DeployedDaemon:
		return o.sealedLimit(map[string]string{LinkUDP: "chain", LinkXDP: "chain-xdp"}[o.Link])
	}
	return o.sealedLimit(o.Link)
}

// sealedLimit returns the name of the sealed variant of a limit if the links are sealed, else
// the name itself.
func (o *Options) sealedLimit(name string) string {
	if o.Sealed && (o.Link == LinkUDP || o.Link == LinkXDP) {
		return name + "-sealed"
	}
	return name
}

// head returns the line above the columns of a kind.
func (k *Kind) head(o *Options) string {
	head := fmt.Sprintf("%8s %7s %12s", "bytes", "links", "iterations")
	for _, c := range k.columns {
		head += fmt.Sprintf(" %*s", c.width, c.name)
	}
	if o.BothLinks {
		head += fmt.Sprintf(" %9s %7s", "added µs", "ratio")
	}
	if o.Against {
		head += fmt.Sprintf(" %14s %7s", "limit", "ratio")
	}
	return head
}

// line formats a row below them.
func (k *Kind) line(r *Row) string {
	line := fmt.Sprintf("%10d %7s %12d", r.Size, Sealing{Sealed: r.Sealed}.words(), r.Iterations)
	for _, c := range k.columns {
		line += fmt.Sprintf(" %*.*f", c.width, c.digits, c.of(r))
	}
	if r.inPair {
		line += r.BesidePlain.columns()
	}
	if a := r.Against; a != nil {
		line += fmt.Sprintf(" %14.*f %7.2f  %s", k.columns[0].digits, a.shown, a.Ratio, a.Limit)
	}
	return line
}
