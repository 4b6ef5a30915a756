package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/cgroup"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/deploy"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// jobs holds the parts of jobs that are on this host. Each has a keeper, a process of the job's
// user:
//
//	reserve ─► slots taken ─► keeper started ─► it is ready: the launcher may start ranks
//	                                        └─► it refuses, or is late: killed
//	the keeper ends ─► its leftovers are killed ─► slots free
//
// Slots are taken for exactly the life of the keeper.
//
// Slots belong to the host: all links of a daemon share them.
type jobs struct {
	d *Daemon // the link of the request
	*places
}

// places is what a host offers to jobs.
type places struct {
	family    family
	reserving chan struct{} // holds a token for each reservation in progress

	mu        sync.Mutex
	all       map[string]*job  // by id
	taken     int              // slots
	reservers map[reserver]int // reservations in progress
	closed    bool
	early     *early         // waits for its reservation; nil: none
	live      sync.WaitGroup // jobs whose end is not handled yet

	groupless sync.Once // logs why jobs get no control group
}

// job is the part of one job on this host.
type job struct {
	ctl.JobInfo // without its state and processes, which the keeper knows

	on      *Daemon // the link of its ranks
	account *account
	log     *slog.Logger
	slots   int           // 0 if it is refused, and its keeper only looks for further causes
	keeper  *keeper       // nil until it is started
	group   *cgroup.Group // nil: this daemon cannot make one
	noGroup string        // why there is no group
	socket  *ctl.Listener // nil: the user may connect to the daemon's
	done    chan struct{} // closed when everything of the job is free
}

func newPlaces(subreaper bool) *places {
	return &places{family: family{subreaper: subreaper}, reserving: make(chan struct{}, limits.ReservesAtOnce),
		all: make(map[string]*job), reservers: make(map[reserver]int)}
}

// later completes a request that waits for a process. It runs without holding up other requests.
type later func() (*ctl.JobReply, int, error)

// waiting is like later, but returns the whole reply.
type waiting func() (*ctl.Reply, error)

// jobAnswer answers a request about jobs, or returns the part of it that waits.
func (d *Daemon) jobAnswer(ctx context.Context, a deploy.Asker, r *ctl.Request) (*ctl.Reply, waiting, error) {
	whole := func(reply *ctl.JobReply, next int, err error) (*ctl.Reply, error) {
		return &ctl.Reply{Job: reply, Next: next}, err
	}
	reply, next, rest, err := d.jobs.answer(ctx, a, r)
	if rest != nil {
		return nil, func() (*ctl.Reply, error) { return whole(rest()) }, nil
	}
	got, err := whole(reply, next, err)
	return got, nil, err
}

// answer answers a request about jobs, or returns the part of it that waits.
func (j *jobs) answer(ctx context.Context, a deploy.Asker, r *ctl.Request) (*ctl.JobReply, int, later, error) {
	q := r.Job
	switch q.What {
	case ctl.JobReserve:
		reply, rest := j.reserve(ctx, a, q.Reserve)
		return reply, 0, rest, nil
	case ctl.JobList:
		return j.list(a, q.ID, r.From)
	case ctl.JobStuck:
		return j.stuck(a, q.ID, r.From)
	case ctl.JobKill:
		rest, err := j.kill(a, q.ID, time.Duration(q.Grace))
		return nil, 0, rest, err
	case ctl.JobSlots:
		if err := j.mayLook(a); err != nil {
			return nil, 0, nil, err
		}
		return nil, 0, func() (*ctl.JobReply, int, error) { return j.free(ctx) }, nil
	}
	if a.NIC == 0 && strings.HasPrefix(q.What, "machine-") {
		reply, next, err := j.machineAnswer(a, r)
		return reply, next, nil, err
	}
	return nil, 0, nil, fmt.Errorf("%w: NIC %v does not answer %q to %v", ctl.ErrBadRequest, j.d.id, q.What, a)
}

// slots returns how many ranks this host offers to take.
func (j *jobs) slots() int { return j.d.live.Load().slots }

// list returns the jobs here, or one job with its ranks.
func (j *jobs) list(a deploy.Asker, id string, from int) (*ctl.JobReply, int, later, error) {
	if err := j.mayLook(a); err != nil {
		return nil, 0, nil, err
	}
	if id == "" {
		var all []ctl.JobInfo
		for _, b := range j.snapshot() {
			all = append(all, b.info())
		}
		page, next := ctl.Page(all, from)
		return &ctl.JobReply{NIC: j.d.id, Jobs: page}, next, nil, nil
	}
	b, err := j.find(id)
	if err != nil {
		return nil, 0, nil, err
	}
	return nil, 0, func() (*ctl.JobReply, int, error) {
		info := b.info()
		ranks := j.attached(b, b.keeper.ranks())
		var next int
		info.Processes, next = ctl.Page(ranks, from)
		return &ctl.JobReply{NIC: j.d.id, Jobs: []ctl.JobInfo{info}}, next, nil
	}, nil
}

// stuck returns where the ranks of a job stand. The job may be one that another launcher has
// started.
func (j *jobs) stuck(a deploy.Asker, id string, from int) (*ctl.JobReply, int, later, error) {
	if err := j.mayLook(a); err != nil {
		return nil, 0, nil, err
	}
	answer := func(info ctl.JobInfo, known []ctl.RankInfo) (*ctl.JobReply, int, error) {
		page, next := ctl.Page(j.d.stuck(id, known), from)
		info.Processes = page
		return &ctl.JobReply{NIC: j.d.id, Jobs: []ctl.JobInfo{info}}, next, nil
	}
	b, err := j.find(id)
	if err != nil {
		reply, next, err := answer(ctl.JobInfo{ID: id, NIC: j.d.id}, nil)
		return reply, next, nil, err
	}
	return nil, 0, func() (*ctl.JobReply, int, error) {
		return answer(b.info(), j.attached(b, b.keeper.ranks()))
	}, nil
}

// snapshot returns the jobs here, in the order of their ids.
func (j *jobs) snapshot() (l []*job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.all {
		if b.keeper != nil && b.on == j.d {
			l = append(l, b)
		}
	}
	slices.SortFunc(l, func(a, b *job) int { return cmp.Compare(a.ID, b.ID) })
	return l
}

// find returns the job with an id.
func (j *jobs) find(id string) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b := j.all[id]; b != nil && b.keeper != nil && b.on == j.d {
		return b, nil
	}
	return nil, fmt.Errorf("%w: %s has no ranks on the host of NIC %v", ctl.ErrNoJob, id, j.d.id)
}

// info describes the job, without its processes.
func (b *job) info() ctl.JobInfo {
	i := b.JobInfo
	i.State, i.Keeper = b.keeper.state(), b.keeper.cmd.Process.Pid
	return i
}

// attached marks the ranks of a job that are processes of this NIC. It drops reports of ranks
// that are not the job's.
func (j *jobs) attached(b *job, ranks []ctl.RankInfo) []ctl.RankInfo {
	here := make(map[string]bool)
	for _, p := range j.d.processes() {
		here[p.Name] = true
	}
	ranks = slices.DeleteFunc(ranks, func(r ctl.RankInfo) bool { return r.Rank < b.First || r.Rank >= b.First+b.Ranks })
	for i := range ranks {
		ranks[i].Attached = here[fmt.Sprintf("%s/%d", b.ID, ranks[i].Rank)]
	}
	return ranks
}

// kill ends a job on this host. The part that waits takes until the keeper knows: a keeper may
// leave its packets unread for some time.
func (j *jobs) kill(a deploy.Asker, id string, grace time.Duration) (later, error) {
	b, err := j.find(id)
	if err != nil {
		return nil, err
	}
	if err := j.mayKill(a, b); err != nil {
		return nil, err
	}
	b.log.Info("job is killed", "by", a.String())
	return func() (*ctl.JobReply, int, error) {
		b.keeper.end(cmp.Or(grace, limits.JobGrace), j.who(a))
		return &ctl.JobReply{NIC: j.d.id, PID: b.keeper.cmd.Process.Pid, Jobs: []ctl.JobInfo{b.info()}}, 0, nil
	}, nil
}

// who describes the user who made a request, for the text of an error: the user, the host and the
// NIC.
func (j *jobs) who(a deploy.Asker) string {
	if a.NIC == 0 {
		return fmt.Sprintf("user %s on %s (NIC %v)", a.User, j.d.host(), j.d.id)
	}
	for _, n := range j.d.nodes() {
		if n.ID == a.NIC && n.Name != "" {
			return fmt.Sprintf("user %s on %s (NIC %v)", a.User, n.Name, a.NIC)
		}
	}
	return fmt.Sprintf("user %s of NIC %v", a.User, a.NIC)
}

// admits reports whether a user has a job here, and so may attach.
func (j *jobs) admits(uid int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.all {
		if b.account.uid == uid {
			return true
		}
	}
	return false
}

// mayClaim returns an error if a name belongs to a job of another user.
func (j *jobs) mayClaim(uid int, name vni.Name) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.of(name)
	if b == nil || uid == 0 || uid == b.account.uid {
		return nil
	}
	return fmt.Errorf("%w: user %d may not be %v: %s is a job of user %s", ctl.ErrRefused, uid, name,
		b.ID, b.account.name)
}

// of returns the job here that a name belongs to, or nil. The caller holds mu.
func (j *places) of(name vni.Name) *job {
	return j.all[strings.TrimSuffix(name.Application(), ".run")]
}

// has reports whether a name belongs to a job here.
func (j *places) has(name vni.Name) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(name) != nil
}

// using lists the jobs here that use a machine of this daemon, on any link.
func (j *places) using(machine string) (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, b := range j.all {
		if b.keeper != nil && b.Machine == machine && b.Launcher.NIC == b.on.id {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// attend waits for the end of a job's keeper, and then frees everything of the job.
func (j *jobs) attend(b *job) {
	defer j.live.Done()
	err := j.family.wait(b.keeper.cmd)
	b.keeper.ended()
	_ = b.keeper.link.Close()
	b.endGroup()
	if left := j.family.endLeftovers(b.keeper.began, b.account.uid, limits.KeeperExtra); len(left) > 0 {
		b.log.Error("processes of a job cannot be killed", "pids", left)
	}
	j.forget(b)
	b.log.Info("job is gone", "keeper", b.keeper.cmd.Process.Pid, "end", howEnded(err))
}

// makeGroup makes the control group of a job, if this daemon may. Without a group, the keeper and
// the daemon find the processes of a job by their parents to end them.
func (b *job) makeGroup() {
	// Several hosts of a job may be daemons of one machine, as in tests. The index of the host
	// distinguishes them.
	id, restart, _ := strings.Cut(b.ID, ".")
	name := fmt.Sprintf("%s-%d", id, b.Host)
	if restart != "" {
		name += "." + restart
	}
	g, err := cgroup.Make(name, b.account.uid, int(b.account.gid))
	if err != nil {
		b.noGroup = noGroupText(err, name)
		b.on.jobs.groupless.Do(func() {
			b.on.log.Log(context.Background(), grouplessLevel(os.Getuid()),
				"jobs get no control group, and so no limit of memory", "error", b.noGroup)
		})
		return
	}
	b.group = g
}

// noGroupText returns, on one line, the system's reason why a control group could not be made.
func noGroupText(err error, name string) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "cgroup: "), "make "+name+": ")
	return strings.ReplaceAll(text, "\n", "; ")
}

// grouplessLevel returns the level at which a daemon of this user logs that it cannot make
// control groups. Root expects that it can.
func grouplessLevel(uid int) slog.Level {
	if uid == 0 {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// endGroup kills the processes left in the control group, and removes it.
func (b *job) endGroup() {
	if b.group == nil {
		return
	}
	left, err := b.group.Remove(limits.KeeperExtra)
	if err != nil || len(left) > 0 {
		b.log.Error("the control group of the job remains", "directories", b.group.Paths(), "pids", left, "error", err)
	}
}

// sweep ends jobs that an earlier daemon left when it was killed together with their keepers. A
// group may be up to sweepAge old before its keeper enters it.
func (j *places) sweep(ctx context.Context, log *slog.Logger) {
	for _, after := range []time.Duration{0, 2 * sweepAge} {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return
		}
		ended, err := cgroup.Sweep("job-", sweepAge)
		if len(ended) > 0 {
			log.Warn("jobs of an earlier daemon are ended", "jobs", ended)
		}
		if err != nil {
			log.Debug("control groups of earlier jobs", "error", err)
		}
	}
}

const sweepAge = 10 * time.Second

// howEnded returns how a keeper ended, as text.
func howEnded(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// forget frees the socket, the slots and the entry of a job.
func (j *jobs) forget(b *job) {
	if b.socket != nil {
		if err := b.socket.Close(); err != nil {
			b.log.Error("socket of the job", "error", err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.all, b.ID)
	j.taken -= b.slots
	close(b.done)
}

// close ends all jobs. The keepers tell their launchers why, and end their ranks. close kills
// keepers that take longer than limits.JobGrace and limits.KeeperExtra.
func (j *places) close() {
	j.mu.Lock()
	j.closed = true
	j.dropEarly()
	for _, b := range j.all {
		if b.keeper != nil {
			if b.keeper.link.Tell(&ctl.ToKeeper{Stops: true}) != nil {
				_ = b.keeper.link.Close()
			}
			b.keeper.killWithin(limits.JobGrace + limits.KeeperExtra)
		}
	}
	j.mu.Unlock()
	j.live.Wait()
}

// host returns the name of this host for messages.
func (d *Daemon) host() string {
	own := d.isOwn()
	for _, n := range d.registry.Nodes() {
		if own(n) && n.Name != "" {
			return n.Name
		}
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return d.id.String()
}
