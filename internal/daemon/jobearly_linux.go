package daemon

import (
	"os"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// startEarly starts the keeper of a job of this user before its reservation comes, and makes its control group. The
// keeper attaches meanwhile. After an error the job's reservation starts a keeper, and reports what is wrong.
func (j *jobs) startEarly(id string) {
	if id == "" {
		return
	}
	name, err := vni.MakeName(ctl.KeeperApplication(id, 0), 1) // the job's only host
	if err != nil {
		return
	}
	a, err := accountOf(false, "", os.Getuid())
	if err != nil {
		return
	}
	b := &job{account: a, on: j.d, JobInfo: ctl.JobInfo{ID: id}, log: j.d.log.With("job", id, "user", a.name)}
	b.makeGroup()
	await := &ctl.KeeperAwait{Name: name.String(), Socket: j.d.Socket()}
	if b.group != nil {
		await.Cgroup = b.group.Paths()
	}
	if b.keeper, err = j.startKeeper(b, &ctl.ToKeeper{Await: await}); err != nil {
		b.endGroup()
		return
	}
	j.mu.Lock()
	j.early = b
	j.mu.Unlock()
}

// takeEarly gives a job the keeper and the control group that were made for it, and returns the keeper; nil if there
// is none.
func (j *jobs) takeEarly(b *job) *keeper {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.early
	if j.closed || e == nil || e.ID != b.ID || e.account.uid != b.account.uid || e.on != b.on {
		return nil
	}
	j.early = nil
	b.group, b.noGroup = e.group, e.noGroup
	return e.keeper
}

// dropEarly ends the early keeper if its reservation has not come. Such a keeper has started no rank.
// The caller holds mu.
func (j *places) dropEarly() {
	b := j.early
	if b == nil {
		return
	}
	j.early = nil
	_ = b.keeper.link.Close()
	b.keeper.killWithin(limits.KeeperExtra)
	j.live.Go(func() {
		_ = j.family.wait(b.keeper.cmd)
		b.keeper.ended()
		b.endGroup()
	})
}
