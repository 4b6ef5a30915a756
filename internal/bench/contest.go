package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/testbed"
)

// KindContended is the measurement of Weft and of TCP on a machine on which other programs
// compute. KindStreams is the measurement of many concurrent connections.
const (
	KindContended = "contended"
	KindStreams   = "streams"
)

// What Weft is measured against.
const (
	AgainstTCP = "tcp" // compared with plain links
	AgainstTLS = "tls" // Go's, over TCP, compared with sealed links
)

// ContestOptions say what carries bytes, and what it is compared with.
type ContestOptions struct {
	Kind        string
	Self        string        // path of the weft binary
	Time        time.Duration // for each row
	Rounds      int           // in which the contestants take turns
	Hogs        int           // programs that compute during the measurement
	Sizes       []int         // bytes of a round trip each way, or of a write
	Streams     []int         // concurrent connections
	Over        []string      // CarriedByMessages, CarriedByStreams
	Deployments []string      // DeployedEmbedded, DeployedDaemon
	Against     []string      // AgainstTCP, AgainstTLS
	Link        string        // LinkUDP or LinkXDP
	Veth        bool          // the two sides are on two hosts of a testbed
	Fabric      string        // the file with the fabric key of sealed links
}

// ContestRow is one case: Weft compared with TCP. The round trips of all rounds are taken
// together. The ratios of medians and of bytes are the medians of the rounds.
type ContestRow struct {
	Bench      string `json:"bench"`
	Over       string `json:"over"`
	Against    string `json:"against"`
	Link       string `json:"link"`
	Hogs       int    `json:"hogs"`
	Size       int    `json:"size"`
	Streams    int    `json:"streams"`
	Deployment string `json:"deployment"`
	Sealed     bool   `json:"sealed"`

	P50      int64   `json:"p50_ns"`
	P99      int64   `json:"p99_ns"`
	Bytes    float64 `json:"bytes_per_s"`
	TCPP50   int64   `json:"tcp_p50_ns"`
	TCPP99   int64   `json:"tcp_p99_ns"`
	TCPBytes float64 `json:"tcp_bytes_per_s"`

	RatioP50   float64 `json:"ratio_p50"` // Weft's by TCP's, as in the next two
	RatioP99   float64 `json:"ratio_p99"`
	RatioBytes float64 `json:"ratio_bytes"`
}

// MostCarried is the largest number of concurrent connections.
const MostCarried = 1024

// ContestAgainst lists what Weft can be measured against.
func ContestAgainst() []string { return []string{AgainstTCP, AgainstTLS} }

// Check returns an error if the options cannot be measured.
func (o *ContestOptions) Check() error {
	if most := slices.Max(o.Streams); slices.Contains(o.Over, CarriedByMessages) && most > limits.Contexts {
		return fmt.Errorf("%d messages at a time: expected at most %d, since a process sends no more at a time; "+
			"--over stream has more",
			most, limits.Contexts)
	}
	if o.Link == LinkXDP && len(o.Against)*len(o.Deployments) > 1 {
		return errors.New("--link xdp with several of --against or --deployment: expected one of each, " +
			"since a queue of an interface has one AF_XDP socket")
	}
	return CheckRounds(o.Time, 4*o.Rounds)
}

// RunContest measures each case, and passes each row to out. In each round of a case, the
// contestants take turns, each in two processes of its own:
//
//	round    1                                  2
//	Weft     ─ round trips ─      ─ bytes ─
//	TCP                     ─ round trips ─ …
//	hogs     ─────────────────────────────────────────────
func RunContest(ctx context.Context, o ContestOptions, out func(ContestRow) error) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	var down undo
	defer down.end(ctx, &err)
	c := &contest{o: &o, pairs: make(map[pairKind]*crew)}
	if o.Veth {
		if c.bed, err = testbed.New(testbed.Config{Hosts: 2}); err != nil {
			return err
		}
		down.add(c.bed.Close)
	}
	for range o.Hogs {
		if _, err := down.startServer(ctx, newChild(o.Self, childPlan{Hog: &hogPlan{}}.args(o.Kind)...)); err != nil {
			return fmt.Errorf("bench: starting a program that computes: %w", err)
		}
	}
	return c.eachCase(func(w caseOf) error {
		row, err := c.measure(ctx, &down, w)
		if err != nil {
			return fmt.Errorf("bench: %s, %d connections, %d bytes: %w", w.over, w.streams, w.size, err)
		}
		return out(row)
	})
}

// caseOf is a case of a contest.
type caseOf struct {
	against, deployment, over string
	size, streams             int
}

// eachCase calls f for each case.
func (c *contest) eachCase(f func(caseOf) error) error {
	o := c.o
	for _, against := range o.Against {
		for _, deployment := range o.Deployments {
			for _, over := range o.Over {
				for _, streams := range o.Streams {
					for _, size := range o.Sizes {
						if err := f(caseOf{against, deployment, over, size, streams}); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// contest holds the processes. A pair is started for the first case that needs it.
type contest struct {
	o     *ContestOptions
	bed   *testbed.Testbed
	pairs map[pairKind]*crew // the clients of the pairs
	ports int                // ports in use on the hosts of the testbed
}

// pairKind identifies a pair of processes. Messages and streams go between the same pair.
type pairKind struct {
	against    string // TCP or TLS; empty: this is Weft
	deployment string // of Weft
	sealed     bool
}

// client returns the client of a pair.
func (c *contest) client(ctx context.Context, down *undo, k pairKind) (*crew, error) {
	if client := c.pairs[k]; client != nil {
		return client, nil
	}
	p := carrierPlan{Against: k.against, Deployment: k.deployment, Link: c.o.Link, Self: c.o.Self,
		Sealing: Sealing{Sealed: k.sealed, Fabric: c.o.Fabric}}
	c.ports++
	start := func(host int) *child {
		if p.Listen = "127.0.0.1:0"; c.bed != nil {
			p.Listen = fmt.Sprintf("%v:%d", c.bed.Host(host).Addr(), DefaultPort+c.ports)
		}
		args := childPlan{Carrier: &p}.args(c.o.Kind)
		if c.bed == nil {
			return newChild(c.o.Self, args...)
		}
		return newChildOn(c.bed.Host(host), c.o.Self, args...)
	}
	at, err := down.startServer(ctx, start(1))
	if err != nil {
		return nil, err
	}
	p.Server = json.RawMessage(at)
	client, err := down.talk(ctx, start(0))
	if err != nil {
		return nil, fmt.Errorf("bench: starting a client: %w", err)
	}
	c.pairs[k] = client
	return client, nil
}

// measure makes the row of a case.
func (c *contest) measure(ctx context.Context, down *undo, w caseOf) (ContestRow, error) {
	sealed := w.against == AgainstTLS
	weft, err := c.client(ctx, down, pairKind{deployment: w.deployment, sealed: sealed})
	if err != nil {
		return ContestRow{}, err
	}
	tcp, err := c.client(ctx, down, pairKind{against: w.against})
	if err != nil {
		return ContestRow{}, err
	}
	var ours, theirs contestant
	for range c.o.Rounds {
		q := carrierQuestion{Over: w.over, Size: w.size, Streams: w.streams,
			Time: c.o.Time / time.Duration(4*c.o.Rounds)}
		for _, q.Echo = range []bool{true, false} {
			if err := errors.Join(ours.ask(weft, q), theirs.ask(tcp, q)); err != nil {
				return ContestRow{}, err
			}
		}
	}
	return ContestRow{
		Bench: c.o.Kind, Over: w.over, Against: w.against, Link: c.o.Link, Hogs: c.o.Hogs, Size: w.size,
		Streams: w.streams, Deployment: w.deployment, Sealed: sealed,
		P50: ours.all.p50(), P99: ours.all.ValueAtQuantile(99), Bytes: median(ours.bytes),
		TCPP50: theirs.all.p50(), TCPP99: theirs.all.ValueAtQuantile(99), TCPBytes: median(theirs.bytes),
		RatioP50:   median(ratios(ours.p50, theirs.p50)),
		RatioP99:   float64(ours.all.ValueAtQuantile(99)) / float64(max(theirs.all.ValueAtQuantile(99), 1)),
		RatioBytes: median(ratios(ours.bytes, theirs.bytes)),
	}, nil
}

// contestant holds the results of one contestant in the rounds of a case.
type contestant struct {
	all   *times
	p50   []float64 // ns, of each round
	bytes []float64 // per second, of each round
}

// ask sends a question to a pair of processes, and records the answer.
func (c *contestant) ask(client *crew, q carrierQuestion) error {
	var a carrierAnswer
	if err := client.ask(q, &a); err != nil {
		return err
	}
	if !q.Echo {
		c.bytes = append(c.bytes, a.BytesPerSecond)
		return nil
	}
	if c.all == nil {
		c.all = newHistogram()
	}
	c.all.Merge(a.Times.Histogram)
	c.p50 = append(c.p50, float64(a.Times.p50()))
	return nil
}

// ratios divides the figures of each round.
func ratios(ours, theirs []float64) (l []float64) {
	for i, x := range ours {
		l = append(l, x/max(theirs[i], 1))
	}
	return l
}
