package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/cgroup"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/pmi"
	"github.com/weftnet/weft/internal/ranks"
	"github.com/weftnet/weft/internal/stage"
)

// rankStarter starts the ranks of a keeper.
type rankStarter struct {
	begin  *ctl.KeeperBegin
	group  *cgroup.Group // nil: none
	pmi    *pmi.Server
	staged *stage.Staged // nil: the program is on this host
}

// stage copies the program of the job to this host. The keeper then passes it on to others until
// close.
func (k *rankStarter) stage(ctx context.Context, p *fabric.Process, manifest []byte, hosts int) error {
	r := k.begin.Reserve
	plan, err := stage.ReadPlan(manifest)
	if err != nil {
		return err
	}
	if plan.Tree.Hosts != hosts || plan.Tree.App != ctl.KeeperApplication(r.Job, r.Restart) {
		return fmt.Errorf("a plan for %d keepers of %s; expected one for %d of this job",
			plan.Tree.Hosts, plan.Tree.App, hosts)
	}
	k.staged, err = plan.Bring(ctx, p, r.Application(), r.Host, stage.DefaultDir())
	return err
}

// start starts the ranks of one host: all or none.
func (k *rankStarter) start(s launch.Start, on launch.Callbacks) (launch.Set, error) {
	cfg := ranks.Config{
		Program: s.Program, Argv: s.Argv, Env: s.Env, Dir: s.Dir, Ranks: s.Ranks, Unbuffered: s.Unbuffered,
		Output: on.Output, Want: on.Want, State: on.State, Stdin: make(map[int]bool), Cgroup: k.group,
		Ended: func(e ranks.Exit) { on.Ended(launch.Exit(e)) },
	}
	if k.staged != nil {
		cfg.Program = k.staged.Path
	}
	for _, rank := range s.Stdin {
		cfg.Stdin[rank] = true
	}
	local := make(map[int]int, len(s.Ranks))
	for i, rank := range s.Ranks {
		local[rank] = i
	}
	cfg.EnvOf = func(rank int) []string { return k.environment(&s, rank, local[rank]) }
	if s.PMI {
		var err error
		k.pmi, err = pmi.NewServer(pmi.ServerConfig{Name: s.App(), Size: s.Size, Ranks: s.Ranks, Mapping: s.Mapping},
			on.KVS)
		if err != nil {
			return nil, err
		}
		cfg.PMI = k.pmi.Connect
	}
	set, err := ranks.Start(cfg)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "ranks: ")) // a user reads it
	}
	return keptSet{set}, nil
}

// openGroup opens the job's control group, and limits its memory. It returns nil if the daemon
// could make no group; none then gives the reason.
func openGroup(paths []string, none string, memory int64) (*cgroup.Group, error) {
	if len(paths) == 0 {
		if memory > 0 {
			return nil, fmt.Errorf("the daemon could make no control group: %s", cmp.Or(none, "it does not say why"))
		}
		return nil, nil
	}
	g, err := cgroup.Open(paths...)
	if err == nil && memory > 0 {
		err = g.LimitMemory(memory)
	}
	return g, err
}

// environment returns the variables by which a rank learns its place in the job.
func (k *rankStarter) environment(s *launch.Start, rank, local int) []string {
	r := k.begin.Reserve
	env := []string{
		"WEFT_JOB=" + s.Job, "WEFT_NAME=" + s.App(), "WEFT_RANK=" + strconv.Itoa(rank),
		"WEFT_SIZE=" + strconv.Itoa(s.Size),
		"WEFT_LOCAL_RANK=" + strconv.Itoa(local), "WEFT_LOCAL_SIZE=" + strconv.Itoa(len(s.Ranks)),
		"WEFT_NODE=" + strconv.Itoa(r.Host),
		"WEFT_RESTART=" + strconv.Itoa(s.Restart), "WEFT_SOCKET=" + k.begin.Socket,
	}
	if s.Machine != "" {
		env = append(env, "WEFT_MACHINE="+s.Machine)
	}
	if s.Link != "" {
		env = append(env, "WEFT_LINK="+s.Link)
	}
	if s.PMI {
		env = append(env, k.pmi.Environment(rank)...)
	}
	return env
}

// close ends the services for the ranks. The ranks have ended.
func (k *rankStarter) close() error {
	if k.pmi != nil {
		k.pmi.Close()
	}
	if k.staged != nil {
		return k.staged.Close()
	}
	return nil
}

// keptSet adapts a set of ranks to a keeper.
type keptSet struct{ *ranks.Set }

func (k keptSet) End(grace time.Duration) []launch.Survivor {
	var all []launch.Survivor
	for _, s := range k.Set.End(grace) {
		all = append(all, launch.Survivor(s))
	}
	return all
}

func (k keptSet) Inspect() []ctl.RankInfo {
	var all []ctl.RankInfo
	for _, r := range k.Set.Inspect() {
		all = append(all, ctl.RankInfo{Rank: r.Rank, PID: r.PID, State: r.State, Cause: r.Cause})
	}
	return all
}
