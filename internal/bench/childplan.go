package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weftnet/weft/internal/bench/limit"
)

// childPlan says what a process that a bench starts by --child does: the one plan that is set.
type childPlan struct {
	Crew    *crewPlan    `json:",omitempty"`
	Hostile *hostilePlan `json:",omitempty"`
	Pages   *pagesPlan   `json:",omitempty"`
	Program *programPlan `json:",omitempty"`

	Parallel *parallelPlan `json:",omitempty"`
	Carrier  *carrierPlan  `json:",omitempty"`
	Hog      *hogPlan      `json:",omitempty"`
}

// args returns the command line of a child. kind is the kind of measurement.
func (p childPlan) args(kind string) []string {
	told, _ := json.Marshal(p) // it has no types that JSON lacks
	return []string{"bench", kind, "--child", string(told)}
}

// Child runs such a process, until in ends.
func Child(ctx context.Context, kind, told string, in io.Reader, out io.Writer) error {
	if kind == KindLimits {
		return limit.RunChild(told, in, out)
	}
	var p childPlan
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		return fmt.Errorf("bench: what a process is told: %w", err)
	}
	switch {
	case p.Crew != nil:
		return p.Crew.run(ctx, in, out)
	case p.Hostile != nil:
		return p.Hostile.run(EndWithInput(ctx, in), out)
	case p.Pages != nil:
		return p.Pages.run(ctx, in, out)
	case p.Program != nil:
		return p.Program.run(ctx, in, out)
	case p.Parallel != nil:
		return p.Parallel.run(ctx, in, out)
	case p.Carrier != nil:
		return p.Carrier.run(ctx, in, out)
	case p.Hog != nil:
		return p.Hog.run(ctx, in, out)
	}
	return fmt.Errorf("bench: what a process is told: nothing to be in %s", told)
}

// answerAll answers each question with a line. It returns when there are no more, or at the
// first that it cannot answer.
func answerAll[Q any](in io.Reader, out io.Writer, answer func(q Q) (any, error)) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Q
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := answer(q)
		if err == nil {
			err = answers.Encode(a)
		}
		if err != nil {
			return err
		}
	}
}

// EndWithInput returns a context that ends when r does: by this a child notices that its parent
// has died.
func EndWithInput(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx
}
