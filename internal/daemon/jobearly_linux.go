package daemon

import (
	"os"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// early is the part of a job that is made before its reservation comes.
type early struct {
	id   string
	of   *Daemon       // the link of the job
	made chan struct{} // closed when job is final
	job  *job          // nil after an error; the reservation then starts a keeper and reports it
}

// startEarly begins to make the control group of a job of this user and to start its keeper,
// which attaches at once. It does not wait for either.
func (j *jobs) startEarly(id string) {
	if id == "" {
		return
	}
	e := &early{id: id, of: j.d, made: make(chan struct{})}
	j.early = e // no other goroutine uses it yet
	go func() {
		defer close(e.made)
		e.job = j.makeEarly(id)
	}()
}

// makeEarly does the work of startEarly. It returns nil after an error.
func (j *jobs) makeEarly(id string) *job {
	name, err := vni.MakeName(ctl.KeeperApplication(id, 0), 1) // the job's only host
	if err != nil {
		return nil
	}
	a, err := accountOf(false, "", os.Getuid())
	if err != nil {
		return nil
	}
	b := &job{account: a, on: j.d, JobInfo: ctl.JobInfo{ID: id}, log: j.d.log.With("job", id, "user", a.name)}
	b.makeGroup()
	await := &ctl.KeeperAwait{Name: name.String(), Socket: j.d.Socket()}
	if b.group != nil {
		await.Cgroup = b.group.Paths()
	}
	if b.keeper, err = j.startKeeper(b, &ctl.ToKeeper{Await: await}); err != nil {
		b.endGroup()
		return nil
	}
	return b
}

// takeEarly gives a job the keeper and the control group that were made for it, and returns the
// keeper, or nil if there is none. It waits until they are made.
func (j *jobs) takeEarly(b *job) *keeper {
	j.mu.Lock()
	e := j.early
	if j.closed || e == nil || e.id != b.ID || b.account.uid != os.Getuid() || e.of != b.on {
		j.mu.Unlock()
		return nil
	}
	j.early = nil
	j.mu.Unlock()
	if <-e.made; e.job == nil {
		return nil
	}
	b.group, b.noGroup = e.job.group, e.job.noGroup
	return e.job.keeper
}

// dropEarly ends the early keeper if no reservation has taken it. An early keeper has started no
// rank. The caller holds mu.
func (j *places) dropEarly() {
	e := j.early
	if e == nil {
		return
	}
	j.early = nil
	<-e.made
	b := e.job
	if b == nil {
		return
	}
	_ = b.keeper.link.Close()
	b.keeper.killWithin(limits.KeeperExtra)
	j.live.Go(func() {
		_ = j.family.wait(b.keeper.cmd)
		b.keeper.ended()
		b.endGroup()
	})
}
