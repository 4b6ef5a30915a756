package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/program"
)

// RunawayRow compares the rate of messages between two processes alone, and while a program that
// does not end runs in the sender's NIC (PANIC-5).
type RunawayRow struct {
	Bench   string    `json:"bench"`
	Sealed  bool      `json:"sealed"`         // the links between NICs
	Program string    `json:"runaway"`        // the name of the program
	Alone   float64   `json:"messages_per_s"` // medians of the rounds
	Beside  float64   `json:"beside_messages_per_s"`
	Ratio   float64   `json:"ratio"` // the median of RoundRatios
	Rounds  []float64 `json:"round_ratios"`
	Stopped int64     `json:"stopped"` // how often the program was stopped, and started again
}

// runaways are programs that do not end by themselves. A message for trigger 1 starts them.
var runaways = []struct{ name, body string }{
	{"loop", "WHILE 1 DO n = n + 1"},
	{"recursion", "SEND n LEN 8 AS 1 TO 900"},
	{"flood", "SEND n LEN 8 AS 1 TO 900; SEND much[0] LEN 16384 AS 1 TO 901 AT peer"},
}

const runawayProgram program.ID = 900

// runawayEvery is the interval at which a stopped program is loaded and started again.
const runawayEvery = 20 * time.Millisecond

// Defaults. The rate over memory changes by half from one round to the next, so the median of a
// few rounds would be off by a tenth.
const (
	RunawayTime   = 3 * time.Second
	RunawayRounds = 15
)

// RunProgramRunaways measures the rate while each of the programs runs, in turns with the rate
// alone, and passes each row to out. Both NICs are in this process, joined by memory, so the
// programs wait for no wire.
func RunProgramRunaways(
	ctx context.Context, d time.Duration, rounds, size int, out func(RunawayRow) error,
) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	client, err := down.inMemory(ctx)
	if err != nil {
		return err
	}
	server, err := client.WaitName(ctx, ServerName)
	if err != nil {
		return err
	}
	c := NewClient(client, ServerName)
	for _, r := range runaways {
		row := RunawayRow{Bench: KindProgram, Program: r.name}
		var alone, beside []float64
		turns := []func() error{
			func() error {
				s, err := c.Stream(ctx, size, d/time.Duration(rounds))
				alone = append(alone, s.MessagesPerSecond())
				return err
			},
			func() error {
				rate, stopped, err := besideRunaway(ctx, c, r.body, server.NIC, size, d/time.Duration(rounds))
				beside, row.Stopped = append(beside, rate), row.Stopped+stopped
				if err != nil {
					err = fmt.Errorf("bench: beside a %s: %w", r.name, err)
				}
				return err
			},
		}
		for i := range rounds {
			for _, turn := range turns {
				if err := turn(); err != nil {
					return err
				}
			}
			slices.Reverse(turns) // so a machine that changes speed favours neither
			row.Rounds = append(row.Rounds, beside[i]/alone[i])
		}
		row.Alone, row.Beside, row.Ratio = median(alone), median(beside), median(row.Rounds)
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

// besideRunaway returns the rate while a program runs away in the client's NIC again and again.
func besideRunaway(
	ctx context.Context, c *Client, body string, peer weft.NICID, size int, d time.Duration,
) (rate float64, stopped int64, err error) {
	module, err := compiled(fmt.Sprintf(
		"PROGRAM runaway: CONST peer = %d; VAR n, much[2048]; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN %s END; END;",
		int64(peer), body))
	if err != nil {
		return 0, 0, err
	}
	at := program.Address{ID: runawayProgram}
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var failed error
	all.Go(func() { stopped, failed = runAway(running, c.p, at, module) })
	s, err := c.Stream(ctx, size, d)
	stop()
	all.Wait()
	if err = errors.Join(err, failed); err == nil {
		err = program.On(c.p).Unload(ctx, at)
	}
	return s.MessagesPerSecond(), stopped, err
}

// runAway loads a program and lets it run away. Whenever the NIC has stopped it, runAway loads
// it again, until ctx ends and the program was stopped at least once. It returns how often the
// program was stopped.
func runAway(ctx context.Context, p *weft.Process, at program.Address, module []byte) (stopped int64, err error) {
	begun := time.Now()
	for {
		if err := startRunaway(p, at, module); err != nil {
			return stopped, err
		}
		if sleep(ctx, runawayEvery) != nil && stopped > 0 {
			return stopped, nil
		}
		was, err := wasStopped(p, at)
		// On a busy machine the whole time may be too short for the program to use up its share
		// once.
		for ; err == nil && !was && ctx.Err() != nil && time.Since(begun) < patience; was, err = wasStopped(p, at) {
			time.Sleep(runawayEvery)
		}
		if was {
			stopped++
		}
		if err != nil || ctx.Err() != nil {
			return stopped, err
		}
	}
}

// startRunaway loads the program, and sends it the message that makes it run away.
func startRunaway(p *weft.Process, at program.Address, module []byte) error {
	g, ctx := program.On(p), context.Background()
	if _, err := g.Load(ctx, []weft.NICID{0}, module,
		program.Options{ID: at.ID, Replace: true, Start: true}); err != nil {
		return err
	}
	return g.Send(ctx, at, 1)
}

// wasStopped reports whether the NIC has stopped the program.
func wasStopped(p *weft.Process, at program.Address) (bool, error) {
	list, err := program.On(p).List(context.Background(), 0)
	return slices.ContainsFunc(list, func(i program.Info) bool { return i.ID == at.ID && i.State == "stopped" }), err
}
