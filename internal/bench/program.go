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

// KindProgram is the measurement of programs in the NIC beside processes.
const KindProgram = "program"

// The series: what exchanges messages with what (PANIC-40 to PANIC-44).
const (
	SeriesMCP2MCP    = "mcp2mcp"    // program and program
	SeriesGetDeliver = "getdeliver" // the same, between segments of both hosts
	SeriesAPI        = "api"        // process and process, while the programs do nothing
	SeriesApp2App    = "app2app"    // as getdeliver, each half started by a process
)

// Series lists the series.
func Series() []string { return []string{SeriesMCP2MCP, SeriesGetDeliver, SeriesAPI, SeriesApp2App} }

// How the far side waits for what comes.
const (
	WaitSpin  = "spin"  // the next exchange begins when the last has ended: nothing has time to sleep
	WaitSleep = "sleep" // there is a pause before each exchange, in which all that waits falls asleep
)

// Waits lists them.
func Waits() []string { return []string{WaitSpin, WaitSleep} }

// Where the far program is.
const (
	ResidentVM  = ctl.ResidentVM  // in the virtual machine of its NIC
	ResidentXDP = ctl.ResidentXDP // in the driver of its link; the messages are datagrams then
)

// Residents lists them.
func Residents() []string { return []string{ResidentVM, ResidentXDP} }

// MostProgramSize is the longest message of an exchange, in bytes.
const MostProgramSize = 8192

// pause is how long nothing is sent before an exchange of WaitSleep: longer than any poller or process waits awake.
const pause = 5 * time.Millisecond

// ProgramOptions say which exchanges to measure.
type ProgramOptions struct {
	Self       string
	Link       string   // LinkUDP or LinkXDP
	Deployment string   // DeployedEmbedded or DeployedDaemon
	Veth       bool     // between two hosts that are made for it; else over loopback
	Series     []string // all of these,
	Sizes      []int    // of each size,
	Sealing
	Residents []string // with the far program there,
	Waits     []string // and waiting so, side by side in each round
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
	Resident   string `json:"resident,omitempty"` // where the far program is; none in SeriesAPI
	Wait       string `json:"wait"`
	Iterations int64  `json:"iterations"` // exchanges
	Lost       int64  `json:"lost"`       // exchanges of which a message was lost, as datagrams may be
	Latency
	*Against
}

// programVariant is what one row is about.
type programVariant struct {
	Series   string `json:"series"`
	Size     int    `json:"size"`
	Resident string `json:"resident"`
	Wait     string `json:"wait"`
}

// variants lists what there is to measure. Where the far program is makes a difference to exchanges between programs alone, and how it waits to
// those in which something waits that can sleep.
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

// MostResidentSize is the longest message of an exchange with a program in the driver, in bytes: what one frame of the usual cable carries.
const MostResidentSize = testbed.DefaultMTU - 28 - wire.OuterLen - wire.DatagramLen - wire.ProgramDatagramLen - wire.TagLen

// limit names the barest program that goes the same way; none for exchanges that begin with a sleep, which no limit does.
func (o *ProgramOptions) limit(v programVariant) string {
	switch {
	case v.Wait == WaitSleep:
		return ""
	case v.Resident == ResidentXDP:
		return "xdptx"
	case o.Deployment == DeployedDaemon && (v.Series == SeriesAPI || v.Series == SeriesApp2App): // through both daemons
		return map[string]string{LinkUDP: "chain", LinkXDP: "chain-xdp"}[o.Link]
	}
	return o.Link
}

// RunProgram measures the series, each in each round, and hands over row by row.
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
		rows[i] = ProgramRow{Bench: KindProgram, Sealed: o.Sealed, Series: v.Series, Link: o.Link, Deployment: o.Deployment, Size: v.Size, Resident: v.Resident, Wait: v.Wait}
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

// leastLimit is the shortest message that limits are measured with, in bytes: it has a number in it.
const leastLimit = 8

// sum fills in the medians of the rounds.
func (r *ProgramRow) sum(samples []sample) {
	for _, s := range samples {
		r.Iterations += s.Iterations
	}
	r.Latency = latencies(samples)
}

// compare fills in the comparison with a limit.
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

// programAsk is what a side is asked.
type programAsk struct {
	programVariant
	Peer uint64        `json:"peer,omitempty"` // the server's NIC; 0: the side that is asked is the server, and gets ready
	Time time.Duration `json:"time"`
}

// programTold is its answer.
type programTold struct {
	NIC   uint64 `json:"nic,omitempty"` // of a side that has begun,
	Addr  string `json:"addr,omitempty"`
	Times *times `json:"times,omitempty"`
	Lost  int64  `json:"lost,omitempty"`
	Error string `json:"error,omitempty"`
}

// programSides starts both sides, each a weft of its own.
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

// program asks a side, which may answer that it cannot.
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
