package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weftnet/weft/internal/cgroup"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/pmi"
	"github.com/weftnet/weft/internal/ranks"
)

// rankStarter starts the ranks of a keeper.
type rankStarter struct {
	begin *ctl.KeeperBegin
	pmi   *pmi.Server
}

// start starts the ranks of one host, all or none.
func (k *rankStarter) start(s launch.Start, on launch.Callbacks) (launch.Set, error) {
	cfg := ranks.Config{
		Program: s.Program, Argv: s.Argv, Env: s.Env, Dir: s.Dir, Ranks: s.Ranks, Unbuffered: s.Unbuffered,
		Output: on.Output, Want: on.Want, State: on.State, Stdin: make(map[int]bool),
		Ended: func(e ranks.Exit) { on.Ended(launch.Exit(e)) },
	}
	for _, rank := range s.Stdin {
		cfg.Stdin[rank] = true
	}
	local := make(map[int]int, len(s.Ranks))
	for i, rank := range s.Ranks {
		local[rank] = i
	}
	cfg.EnvOf = func(rank int) []string { return k.environment(&s, rank, local[rank]) }
	var err error
	if cfg.Cgroup, err = k.group(s.MemoryBytes); err != nil {
		return nil, err
	}
	if s.PMI {
		k.pmi, err = pmi.NewServer(pmi.ServerConfig{Name: s.App(), Size: s.Size, Ranks: s.Ranks}, on.KVS)
		if err != nil {
			return nil, err
		}
		cfg.PMI = k.pmi.Connect
	}
	set, err := ranks.Start(cfg)
	if err != nil {
		return nil, err
	}
	return keptSet{set}, nil
}

// group opens the job's control group, and limits its memory. It is nil if the daemon could make none.
func (k *rankStarter) group(memory int64) (*cgroup.Group, error) {
	if len(k.begin.Cgroup) == 0 {
		if memory > 0 {
			return nil, errors.New("no limit of memory can be set: the daemon could make no control group on this host; " +
				"run it as root, or leave --memory out")
		}
		return nil, nil
	}
	g, err := cgroup.Open(k.begin.Cgroup...)
	if err != nil {
		return nil, err
	}
	if memory > 0 {
		if err := g.LimitMemory(memory); err != nil {
			return nil, fmt.Errorf("limit of memory: %w; leave --memory out", err)
		}
	}
	return g, nil
}

// environment tells a rank who it is.
func (k *rankStarter) environment(s *launch.Start, rank, local int) []string {
	r := k.begin.Reserve
	env := []string{
		"WEFT_JOB=" + s.Job, "WEFT_NAME=" + s.App(), "WEFT_RANK=" + strconv.Itoa(rank), "WEFT_SIZE=" + strconv.Itoa(s.Size),
		"WEFT_LOCAL_RANK=" + strconv.Itoa(local), "WEFT_LOCAL_SIZE=" + strconv.Itoa(len(s.Ranks)), "WEFT_NODE=" + strconv.Itoa(r.Host),
		"WEFT_RESTART=" + strconv.Itoa(s.Restart), "WEFT_SOCKET=" + k.begin.Socket,
	}
	if s.Machine != "" {
		env = append(env, "WEFT_MACHINE="+s.Machine)
	}
	if s.Link != "" {
		env = append(env, "WEFT_LINK="+s.Link)
	}
	if s.PMI {
		env = append(env, "PMI_RANK="+strconv.Itoa(rank), "PMI_SIZE="+strconv.Itoa(s.Size), "PMI_SPAWNED=0")
	}
	return env
}

// close ends what serves the ranks. They have ended.
func (k *rankStarter) close() error {
	if k.pmi != nil {
		k.pmi.Close()
	}
	return nil
}

// keptSet is a set of ranks as a keeper sees it.
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
		all = append(all, ctl.RankInfo{Rank: r.Rank, PID: r.PID, State: r.State})
	}
	return all
}
