package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
	"github.com/weftnet/weft/internal/version"
	"github.com/weftnet/weft/internal/vni"
)

// reserve takes places for ranks of a job and starts its keeper, or returns every reason for a
// refusal. An asker without the role learns that reason only, and nothing else about this host.
func (j *jobs) reserve(ctx context.Context, a deploy.Asker, r *ctl.Reserve) (*ctl.JobReply, later) {
	if no := j.mayRun(a, nil); no != nil {
		return j.refuse(a, *no), nil
	}
	leave, no := j.enter(a)
	if no != nil {
		return j.refuse(a, *no), nil
	}
	return nil, func() (*ctl.JobReply, int, error) {
		defer leave()
		return j.reserveNow(ctx, a, r), 0, nil
	}
}

// enter admits a reservation, unless there are too many: of the same NIC, of the same user of
// this host, or in total.
func (j *jobs) enter(a deploy.Asker) (leave func(), no *ctl.Refusal) {
	busy := func(text string) *ctl.Refusal {
		return &ctl.Refusal{What: ctl.RefusedHost, Text: text, Cure: "try again in a second"}
	}
	select {
	case j.reserving <- struct{}{}:
	default:
		return nil, busy("the daemon works on as many reservations as it can")
	}
	of := reserver{nic: a.NIC}
	if a.NIC == 0 {
		of.uid = a.UID
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch n := j.reservers[of]; {
	case a.NIC != 0 && n >= limits.ReservesOfPeer:
		<-j.reserving
		return nil, busy(fmt.Sprintf("the daemon works on as many reservations as it can, %d of NIC %v", n, a.NIC))
	case a.NIC == 0 && bounded(a.UID) && n >= limits.ReservesOfUser:
		<-j.reserving
		return nil, busy(fmt.Sprintf("the daemon works on %d reservations of user %s; "+
			"it leaves the others to other users",
			n, a.User))
	}
	j.reservers[of]++
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.reservers[of]--; j.reservers[of] == 0 {
			delete(j.reservers, of)
		}
		<-j.reserving
	}, nil
}

// reserver identifies a holder of reservations: another NIC, or a user of this host.
type reserver struct {
	nic registry.NICID // 0: a user of this host
	uid int
}

// bounded reports whether a user must leave room for others: every user but root and the user of
// this daemon.
func bounded(uid int) bool { return uid != 0 && uid != os.Getuid() }

// ofUser counts the jobs of a user here. The caller holds mu.
func (j *jobs) ofUser(uid int) (n int) {
	for _, b := range j.all {
		if b.account.uid == uid {
			n++
		}
	}
	return n
}

// refuse makes the reply that refuses a reservation. Refusals of other NICs are logged, each
// cause at a bounded rate.
func (j *jobs) refuse(a deploy.Asker, all ...ctl.Refusal) *ctl.JobReply {
	if a.NIC == 0 {
		return &ctl.JobReply{NIC: j.d.id, Refusals: all}
	}
	for _, r := range all {
		if r.What == ctl.RefusedRole {
			j.d.control.refuse(uint64(a.NIC), ctl.OpJob, fmt.Errorf("%w: %s", ctl.ErrRefused, r.Text))
		} else if j.d.control.refusals.due(uint64(a.NIC), ctl.OpJob+" "+r.What) { // no rights
			j.d.log.Info("ranks of another NIC's job are refused", "nic", a.NIC, "user", a.User, "what", r.What,
				"refusal", r.Text)
		}
	}
	return &ctl.JobReply{NIC: j.d.id, Refusals: all}
}

// reserveNow does the work of reserve. It takes as long as a keeper takes to begin.
func (j *jobs) reserveNow(ctx context.Context, a deploy.Asker, r *ctl.Reserve) *ctl.JobReply {
	who, err := accountOf(a.NIC != 0, a.User, a.UID)
	if err == nil {
		if no := j.mayRun(a, who); no != nil {
			return j.refuse(a, *no)
		}
	}
	var all []ctl.Refusal
	if no := runsAs(who, err); no != nil {
		all = append(all, *no)
	}
	if r.Version != version.Release {
		all = append(all, ctl.Refusal{What: ctl.RefusedVersion,
			Text: fmt.Sprintf("the daemon has version %s of Weft, the launcher %s", version.Release, r.Version),
			Cure: "install the same version on all hosts of the job"})
	}
	able := len(all) == 0 // able to start a keeper, which finds further causes
	all = append(all, j.unfit(a, r)...)
	if !able {
		return j.refuse(a, append(all, j.lacking(who, r)...)...)
	}
	j.settle(ctx, func(free int) bool { return r.Oversubscribe || r.Ranks <= free })
	b, no := j.take(who, r, len(all) > 0)
	all = append(all, no...)
	if b == nil {
		return j.refuse(a, all...)
	}
	all = append(all, j.begin(ctx, b, r)...)
	if len(all) == 0 {
		b.log.Info("ranks are reserved", "ranks", b.Ranks, "first", b.First, "size", b.Size,
			"keeper", b.keeper.cmd.Process.Pid)
		return &ctl.JobReply{NIC: j.d.id, Ready: true, PID: b.keeper.cmd.Process.Pid, Keeper: j.keeperOf(r)}
	}
	j.drop(b)
	return j.refuse(a, all...)
}

// unfit lists the reasons for a refusal that lie in the request, not in this host.
func (j *jobs) unfit(a deploy.Asker, r *ctl.Reserve) (all []ctl.Refusal) {
	own := a.NIC == 0
	if own && (r.Launcher.NIC != j.d.id || !j.launches(a.UID, r.Launcher)) || !own && r.Launcher.NIC != a.NIC {
		all = append(all, ctl.Refusal{What: ctl.RefusedHost,
			Text: fmt.Sprintf("the launcher is not process %d of NIC %v, which asks",
				r.Launcher.Slot, r.Launcher.NIC),
			Cure: "attach the launcher to the daemon that passes its reservations on"})
	}
	if own := j.d.settings.linkName(); r.Link != "" && r.Link != own {
		all = append(all, j.otherLink(r.Link, own))
	}
	return all
}

// otherLink refuses a reservation that names a link other than that of this NIC.
func (j *jobs) otherLink(named, own string) ctl.Refusal {
	if _, err := j.d.called(named); err != nil {
		return ctl.Refusal{What: ctl.RefusedLink,
			Text: fmt.Sprintf("the daemon has no link %q; it has %s", named, j.d.linkNames()),
			Cure: fmt.Sprintf("start it with --link and [links.%s] in its configuration, or leave --link out", named)}
	}
	return ctl.Refusal{What: ctl.RefusedLink, Text: fmt.Sprintf("NIC %v is on the link %q of its daemon", j.d.id, own),
		Cure: fmt.Sprintf("name the hosts by their NICs on %s, which `weft nic links` lists there", named)}
}

// launches reports whether at is the address of a process of this NIC that belongs to the user.
// Any process is root's.
func (j *jobs) launches(uid int, at ctl.Address) (is bool) {
	j.d.loop.Do(func(clock.Time) {
		s := j.d.sessions[at.Slot]
		is = s != nil && s.gen == at.Generation && (s.uid == uid || uid == 0)
	})
	return is
}

// keeperOf returns the address of a job's keeper on this host, or nil if the keeper has not
// attached.
func (j *jobs) keeperOf(r *ctl.Reserve) (at *ctl.Address) {
	name, err := vni.MakeName(ctl.KeeperApplication(r.Job, r.Restart), uint32(1+r.Host))
	if err != nil {
		return nil
	}
	j.d.loop.Do(func(clock.Time) {
		for _, s := range j.d.sessions {
			if s != nil && s.name == name && s.gen != 0 {
				at = &ctl.Address{NIC: j.d.id, Slot: s.slot, Generation: s.gen}
			}
		}
	})
	return at
}

// ipOf returns the IP address at which this NIC reaches another one; it is empty if none is
// known.
func (j *jobs) ipOf(id registry.NICID) (ip string) {
	if id == j.d.id {
		return ""
	}
	j.d.loop.Do(func(clock.Time) {
		for _, n := range j.d.engine.Nodes() {
			if n.ID == uint64(id) && n.Up && n.Addr.IsValid() {
				ip = n.Addr.Addr().Unmap().String()
			}
		}
	})
	return ip
}

// lacking lists what this host lacks for a reservation.
func (j *jobs) lacking(who *account, r *ctl.Reserve) []ctl.Refusal {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.short(who, r)
}

// short lists what lacking returns. The caller holds the lock. who is nil if the user does not
// exist on this host.
func (j *jobs) short(who *account, r *ctl.Reserve) (all []ctl.Refusal) {
	slots, most := j.slots(), j.d.settings.config.maxProcesses()-1 // the keeper is a process, too
	switch free := slots - j.taken; {
	case slots == 0:
		all = append(all, ctl.Refusal{What: ctl.RefusedSlots, Text: "this host takes no ranks: slots is 0",
			Cure: "set slots in the configuration of its daemon, or leave the host out"})
	case r.Ranks > most:
		all = append(all, ctl.Refusal{What: ctl.RefusedSlots,
			Text: fmt.Sprintf("%d ranks; the NIC has room for %d", r.Ranks, most),
			Cure: "raise max_processes in the configuration of its daemon"})
	case r.Ranks > free && !r.Oversubscribe:
		all = append(all, ctl.Refusal{What: ctl.RefusedSlots,
			Text: fmt.Sprintf("%d of %d slots free, %d needed", max(0, free), slots, r.Ranks),
			Cure: "add --oversubscribe"})
	}
	if b := j.all[r.Application()]; b != nil {
		all = append(all, ctl.Refusal{What: ctl.RefusedHost,
			Text: fmt.Sprintf("%s has ranks on this host already", b.ID),
			Cure: "start the job under another id"})
	}
	if no := j.full(who); no != nil {
		all = append(all, *no)
	}
	return all
}

// full refuses a job if there is no room for one more, of its user or in total. The caller holds
// mu.
func (j *jobs) full(who *account) *ctl.Refusal {
	if len(j.all) >= limits.JobsPerHost {
		return &ctl.Refusal{What: ctl.RefusedHost, Text: fmt.Sprintf("%d jobs have ranks on this host", len(j.all)),
			Cure: "wait until one has ended"}
	}
	if who == nil || !bounded(who.uid) {
		return nil
	}
	if n := j.ofUser(who.uid); n >= limits.JobsOfUser {
		return &ctl.Refusal{What: ctl.RefusedHost,
			Text: fmt.Sprintf("%d jobs of user %s have ranks on this host, as many as one user may have", n, who.name),
			Cure: "wait until one has ended, or end one by weft job kill"}
	}
	return nil
}

// take enters a job. The job gets its slots unless it is refused. take returns a nil job if the
// job cannot even be tried.
func (j *jobs) take(who *account, r *ctl.Reserve, refused bool) (*job, []ctl.Refusal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, []ctl.Refusal{{What: ctl.RefusedHost, Text: "the daemon is going down", Cure: "start it again"}}
	}
	short := j.short(who, r)
	if j.all[r.Application()] != nil || j.full(who) != nil {
		return nil, short
	}
	b := &job{on: j.d, account: who, done: make(chan struct{}),
		JobInfo: ctl.JobInfo{ID: r.Application(), NIC: j.d.id, User: who.name, Machine: r.Machine,
			Program: r.Program, Host: r.Host, First: r.First, Ranks: r.Ranks, Size: r.Size, Restart: r.Restart,
			Started: time.Now().UnixNano(), Launcher: r.Launcher}}
	b.log = j.d.log.With("job", b.ID, "user", who.name)
	if !refused && len(short) == 0 {
		b.slots = r.Ranks
		j.taken += b.slots
	}
	j.all[b.ID] = b
	j.live.Add(1)
	return b, short
}

// begin starts the keeper of a job and waits for its answer. After begin, the job either has
// ended or ends with its keeper.
func (j *jobs) begin(ctx context.Context, b *job, r *ctl.Reserve) []ctl.Refusal {
	socket, err := j.openSocket(b)
	var k *keeper
	if err == nil {
		k, err = j.keeperFor(b, &ctl.KeeperBegin{Reserve: r, Socket: socket, User: b.account.name,
			Launcher: j.ipOf(r.Launcher.NIC)})
	}
	if err != nil {
		b.endGroup()
		j.forget(b)
		j.live.Done()
		return []ctl.Refusal{{What: ctl.RefusedHost,
			Text: fmt.Sprintf("the keeper cannot be started as user %s: %v", b.account.name, err),
			Cure: "see the log of the daemon"}}
	}
	j.mu.Lock()
	b.keeper = k
	if j.closed {
		_ = k.link.Close()
		k.kill()
	}
	j.mu.Unlock()
	go j.attend(b)
	m, err := k.firstAnswer(ctx)
	if err != nil {
		return []ctl.Refusal{{What: ctl.RefusedHost, Text: err.Error(), Cure: "see the log of the daemon"}}
	}
	return m.Refusals
}

// keeperFor returns the keeper of a job, after telling it what to keep: the keeper that was
// started early, or a new one.
func (j *jobs) keeperFor(b *job, begin *ctl.KeeperBegin) (*keeper, error) {
	k := j.takeEarly(b)
	if k == nil {
		b.makeGroup()
	}
	if b.group != nil {
		begin.Cgroup = b.group.Paths()
	}
	begin.NoCgroup, begin.Root = b.noGroup, os.Getuid() == 0
	first := &ctl.ToKeeper{Begin: begin}
	if k == nil {
		return j.startKeeper(b, first)
	}
	_ = k.link.Tell(first) // if it has ended, firstAnswer reports it
	return k, nil
}

// firstAnswer waits for the keeper's answer to its reservation, for at most limits.KeeperWithin.
func (k *keeper) firstAnswer(ctx context.Context) (*ctl.FromKeeper, error) {
	late := time.NewTimer(limits.KeeperWithin)
	defer late.Stop()
	select {
	case m, ok := <-k.answer:
		if ok {
			return m, nil
		}
		return nil, errors.New("the keeper has ended before it was ready" + k.lastWords())
	case <-late.C:
		return nil, fmt.Errorf("the keeper was not ready within %v", limits.KeeperWithin)
	case <-ctx.Done():
		return nil, errors.New("the daemon is going down")
	}
}

// drop ends a refused job, and waits until its slots are free for the next request, for at most
// limits.KeeperExtra.
func (j *jobs) drop(b *job) {
	if b.keeper != nil {
		b.keeper.kill()
	}
	select {
	case <-b.done:
	case <-time.After(limits.KeeperExtra):
	}
}
