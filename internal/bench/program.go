package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/bench/limit"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/wire"
)

// KindProgram is the measurement of programs in NICs in comparison with processes.
const KindProgram = "program"

// The series: the two ends of an exchange (PANIC-40 to PANIC-44).
const (
	SeriesMCP2MCP    = "mcp2mcp"    // program and program
	SeriesGetDeliver = "getdeliver" // the same, between segments of both hosts
	SeriesAPI        = "api"        // process and process, while the programs are idle
	SeriesApp2App    = "app2app"    // as getdeliver, with each half started by a process
)

// Series lists the series.
func Series() []string { return []string{SeriesMCP2MCP, SeriesGetDeliver, SeriesAPI, SeriesApp2App} }

// How the far side waits for a message.
const (
	// the next exchange begins when the last has ended: nothing has time to sleep
	WaitSpin = "spin"
	// there is a pause before each exchange, in which all waiters fall asleep
	WaitSleep = "sleep"
)

// Waits lists the ways to wait.
func Waits() []string { return []string{WaitSpin, WaitSleep} }

// Places of the far program.
const (
	ResidentVM  = ctl.ResidentVM  // in the virtual machine of its NIC
	ResidentXDP = ctl.ResidentXDP // in the driver of its link; the messages are then datagrams
)

// Residents lists these places.
func Residents() []string { return []string{ResidentVM, ResidentXDP} }

// MostProgramSize is the length of the longest message of an exchange, in bytes.
const MostProgramSize = 8192

// pause is the silence before an exchange of WaitSleep. It is longer than any poller or process
// waits awake.
const pause = 5 * time.Millisecond

// ProgramOptions say which exchanges to measure.
type ProgramOptions struct {
	Self       string
	Link       string   // LinkUDP or LinkXDP
	Deployment string   // DeployedEmbedded or DeployedDaemon
	Veth       bool     // between two hosts of a testbed, otherwise over loopback
	Series     []string // all of these,
	Sizes      []int    // of each size,
	Sealing
	Residents []string // with the far program in each of these places,
	Waits     []string // waiting in each of these ways, all in each round
	Time      time.Duration
	Rounds    int
	Against   bool
}

// ProgramRow is one series of exchanges. Figures are medians of the rounds.
type ProgramRow struct {
	Bench      string `json:"bench"`
	Sealed     bool   `json:"sealed"` // the links between NICs
	Series     string `json:"series"`
	Link       string `json:"link"`
	Deployment string `json:"deployment"`
	Size       int    `json:"size"`               // bytes of a message
	Resident   string `json:"resident,omitempty"` // place of the far program; none in SeriesAPI
	Wait       string `json:"wait"`
	Iterations int64  `json:"iterations"` // exchanges
	// exchanges in which a message was lost, as datagrams may be
	Lost int64 `json:"lost"`
	Latency
	*Against
}

// programVariant identifies a row.
type programVariant struct {
	Series   string `json:"series"`
	Size     int    `json:"size"`
	Resident string `json:"resident"`
	Wait     string `json:"wait"`
}

// variants lists the variants to measure. The place of the far program matters only for
// exchanges between programs. The way to wait matters only for exchanges in which a waiter can
// sleep.
func (o *ProgramOptions) variants() (all []programVariant) {
	for _, size := range o.Sizes {
		for _, series := range o.Series {
			residents := o.Residents
			switch series {
			case SeriesAPI:
				residents = []string{""}
			case SeriesApp2App:
				residents = []string{ResidentVM}
			}
			for _, r := range residents {
				for _, w := range o.Waits {
					all = append(all, programVariant{series, size, r, w})
				}
			}
		}
	}
	return all
}

// MostResidentSize is the length of the longest message of an exchange with a program in the
// driver, in bytes: the load of one frame on the default cable.
const MostResidentSize = testbed.DefaultMTU - 28 - wire.OuterLen - wire.DatagramLen -
	wire.ProgramDatagramLen - wire.TagLen

// limit names the barest program that goes the same way. It returns an empty string for
// exchanges that begin with a sleep: no limit does.
func (o *ProgramOptions) limit(v programVariant) string {
	switch {
	case v.Wait == WaitSleep:
		return ""
	case v.Resident == ResidentXDP:
		return "xdptx"
	// through both daemons
	case o.Deployment == DeployedDaemon && (v.Series == SeriesAPI || v.Series == SeriesApp2App):
		return map[string]string{LinkUDP: "chain", LinkXDP: "chain-xdp"}[o.Link]
	}
	return o.Link
}

// RunProgram measures the series, each in each round, and passes each row to out.
func RunProgram(ctx context.Context, o ProgramOptions, out func(ProgramRow) error) (err error) {
	var down undo
	defer down.end(ctx, &err)
	r := programRun{o: &o}
	if err := down.programSides(ctx, &r); err != nil {
		return err
	}
	if o.Against {
		if r.ground, err = limit.NewGround(o.Self, testbed.DefaultMTU, o.Veth); err != nil {
			return err
		}
		down.add(r.ground.Close)
	}
	all := o.variants()
	samples, limits := make([][]sample, len(all)), make([][]limit.Result, len(all))
	rows := make([]ProgramRow, len(all))
	for i, v := range all {
		rows[i] = ProgramRow{Bench: KindProgram, Sealed: o.Sealed, Series: v.Series, Link: o.Link,
			Deployment: o.Deployment, Size: v.Size, Resident: v.Resident, Wait: v.Wait}
	}
	for range o.Rounds {
		for i, v := range all {
			s, lost, err := r.sample(v, o.Time/time.Duration(o.Rounds))
			if err != nil {
				return fmt.Errorf("bench: %s of %d bytes: %w", v.Series, v.Size, err)
			}
			samples[i] = append(samples[i], s)
			rows[i].Lost += lost
			if name := o.limit(v); o.Against && name != "" {
				l, err := r.ground.Measure(ctx, name, max(v.Size, leastLimit), o.Time/time.Duration(o.Rounds))
				if err != nil {
					return err
				}
				limits[i] = append(limits[i], l)
			}
		}
	}
	for i := range rows {
		rows[i].sum(samples[i])
		if len(limits[i]) > 0 {
			rows[i].compare(o.limit(all[i]), samples[i], limits[i])
		}
		if err := out(rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// leastLimit is the length of the shortest message with which limits are measured, in bytes: it
// holds a number.
const leastLimit = 8

// sum sets the medians of the rounds.
func (r *ProgramRow) sum(samples []sample) {
	for _, s := range samples {
		r.Iterations += s.Iterations
	}
	r.Latency = latencies(samples)
}

// compare sets the comparison with a limit.
func (r *ProgramRow) compare(name string, samples []sample, limits []limit.Result) {
	whole := Row{Latency: &r.Latency}
	whole.Against = kindOf(KindLatency).against(name, samples, limits)
	r.Against = whole.Against
}

// programRun is a measurement of programs.
type programRun struct {
	o              *ProgramOptions
	client, server *crew
	peer           uint64 // the server's NIC
	ground         *limit.Ground
}

// programAsk is a request to a side.
type programAsk struct {
	programVariant
	// the server's NIC; 0: the side is the server, and prepares for the exchanges
	Peer uint64        `json:"peer,omitempty"`
	Time time.Duration `json:"time"`
}

// programTold is the answer to a request.
type programTold struct {
	NIC   uint64 `json:"nic,omitempty"` // of a side that has started
	Addr  string `json:"addr,omitempty"`
	Times *times `json:"times,omitempty"`
	Lost  int64  `json:"lost,omitempty"`
	Error string `json:"error,omitempty"`
}

// programSides starts both sides, each as a child.
func (u *undo) programSides(ctx context.Context, r *programRun) (err error) {
	o := r.o
	var bed *testbed.Testbed
	listen := []string{"127.0.0.1:0", "127.0.0.1:0"}
	if o.Veth {
		if bed, err = testbed.New(testbed.Config{Hosts: 2, Apart: true}); err != nil {
			return err
		}
		u.add(bed.Close)
		for i := range listen {
			listen[i] = hostAddress(bed, i)
		}
	}
	start := func(host int, server string) (c *crew, t programTold, err error) {
		plan := childPlan{Program: &programPlan{*o, listen[host], server}}
		if c, err = u.talk(ctx, childAt(bed, host, o.Self, plan.args(KindProgram)...)); err == nil {
			err = c.hear(&t)
		}
		return c, t, err
	}
	var far programTold
	if r.server, far, err = start(1, ""); err != nil {
		return err
	}
	r.peer = far.NIC
	r.client, _, err = start(0, far.Addr)
	return err
}

// program sends a request to a side, and returns its answer. It returns an error if the answer
// has one.
func (c *crew) program(q programAsk) (t programTold, err error) {
	if err = c.ask(q, &t); err == nil && t.Error != "" {
		err = errors.New(t.Error)
	}
	return t, err
}

// sample measures exchanges for the time d.
func (r *programRun) sample(v programVariant, d time.Duration) (s sample, lost int64, err error) {
	if _, err := r.server.program(programAsk{programVariant: v}); err != nil {
		return s, 0, fmt.Errorf("the server's side: %w", err)
	}
	t, err := r.client.program(programAsk{v, r.peer, d})
	if err != nil {
		return s, 0, err
	}
	return sample{Iterations: t.Times.TotalCount(), Times: t.Times}, t.Lost, nil
}

// Deployed says in words where the NICs are.
func Deployed(deployment string) string { return deployed(deployment, 2) }
