package contest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Contestant is a program or library that takes part on one ground.
type Contestant struct {
	Name   string
	Ground string
	Loss   float64
	Sealed bool // it encrypts its messages
	Jobs   Jobs
	// it takes three turns a round, spread over it, since its figures change from one second to
	// the next
	Often bool
	Notes map[string]string // by measure: how it differs from the others

	// Run runs the jobs once. It may leave out jobs that the contestant cannot do. With an
	// error, it also returns the samples made before it. An error that wraps ErrRefused ends the
	// contestant's part in the contest.
	Run func(ctx context.Context, jobs Jobs) ([]Sample, error)
}

// Options say how the contest runs.
type Options struct {
	Rounds   int
	Patience time.Duration // for each contestant's part of a round
	After    func()        // called after each part to remove what the part left behind
	Progress func(line string)
}

// mostFailures is how many parts of a contestant may fail before it is left out. Each failure
// costs up to the whole patience.
const mostFailures = 2

// Run runs the contestants in turns, and fills in the rows and failures of the result. Every
// failure of a contestant becomes a line in the result. Run ends early only if ctx does.
func (r *Result) Run(ctx context.Context, cs []*Contestant, o Options) {
	began := time.Now()
	r.Date, r.Rounds = begun(began), o.Rounds
	found := make(map[*Contestant][][]Sample) // by turn
	failed := make(map[*Contestant]int)
	refused := make(map[*Contestant]string) // why
	for round := range o.Rounds {
		for _, c := range order(cs, round) {
			if failed[c] >= mostFailures || ctx.Err() != nil {
				continue
			}
			start := time.Now()
			samples, err := c.part(ctx, o)
			if ctx.Err() != nil {
				continue
			}
			found[c] = append(found[c], samples)
			line := fmt.Sprintf("round %d of %d: %s: %.1f s", round+1, o.Rounds, c.Label(), time.Since(start).Seconds())
			switch why := oneLine(err); {
			case errors.Is(err, ErrRefused):
				failed[c], refused[c] = mostFailures, why
				line += ": " + why
			case err != nil:
				failed[c]++
				r.Failures = append(r.Failures, Failure{c.Name, c.Ground, c.Loss, round + 1, why})
				line += ": " + why
			}
			o.Progress(line)
		}
	}
	for _, c := range cs {
		if why := refused[c]; why != "" {
			r.Rows = append(r.Rows, refusedRows(c, why)...)
			continue
		}
		r.Rows = append(r.Rows, rowsOf(c, found[c])...)
	}
	r.Seconds = time.Since(began).Seconds()
}

// order returns the turns of a round. Each contestant with Often has two more turns, after one
// third and after two thirds of the round.
func order(cs []*Contestant, round int) (turns []*Contestant) {
	if len(cs) == 0 {
		return nil
	}
	first := round * max(len(cs)/3, 1) % len(cs)
	all := slices.Concat(cs[first:], cs[:first])
	often := slices.DeleteFunc(slices.Clone(all), func(c *Contestant) bool { return !c.Often })
	third, twoThirds := len(all)/3, 2*len(all)/3
	return slices.Concat(all[:third], often, all[third:twoThirds], often, all[twoThirds:])
}

// part runs a contestant's part of one round.
func (c *Contestant) part(ctx context.Context, o Options) (samples []Sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Patience, fmt.Errorf("not done after %v", o.Patience))
	defer cancel()
	defer o.After()
	samples, err = c.Run(ctx, c.Jobs)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // all other errors come of it
	}
	return samples, err
}

// Label returns the contestant's name and ground.
func (c *Contestant) Label() string {
	if c.Ground == Loss {
		return fmt.Sprintf("%s, %v %% of loss", c.Name, 100*c.Loss)
	}
	return c.Name + ", " + c.Ground
}

// oneLine formats an error as one line of a table, of at most 300 bytes.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	const most = 300
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > most {
		s = s[:most] + " …"
	}
	return s
}
