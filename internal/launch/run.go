package launch

import (
	"context"
	"errors"

	"github.com/weftnet/weft"
)

// Run runs a job and waits for its end. The process p has the name LauncherName(o.Job). control may
// be nil.
//
// If a host refuses, no rank starts, and the Result holds the refusals of all hosts. The error is nil
// if the Result tells what happened to the job.
func Run(ctx context.Context, p *weft.Process, d Desk, o Options, c Console, control *Control) (*Result, error) {
	return nil, errors.New("launch: the conversation is not part of this commit")
}
