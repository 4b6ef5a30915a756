package ctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry"
)

// Values of Job.What.
const (
	JobReserve       = "reserve" // places for ranks on one host, and a keeper there
	JobList          = "list"    // the jobs of the NIC, or the one with an ID
	JobKill          = "kill"    // ends a job on the NIC's host
	JobStuck         = "stuck"   // where the ranks of a job wait
	JobSlots         = "slots"   // how many slots the host offers, and how many are free
	JobMachineSet    = "machine-set"
	JobMachineGet    = "machine-get"
	JobMachineList   = "machine-list"
	JobMachineDelete = "machine-delete"
)

// Job is a request about jobs and machines. The field What tells which other fields count.
type Job struct {
	What string `json:"what"`

	// User is the asking user, between NICs: the asking NIC vouches for the name. For local
	// clients the daemon sets it; it ignores a client's own value.
	User string `json:"user,omitempty"`

	Reserve *Reserve `json:"reserve,omitempty"`
	// ID is a job's id, with its restart number if that is not 0.
	ID string `json:"id,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL of kill; 0: limits.JobGrace.
	Grace   int64    `json:"grace_ns,omitempty"`
	Machine *Machine `json:"machine,omitempty"` // of set; get and delete only use the name
}

// Reserve asks one host for places for some ranks of a job, and for a keeper there. The places stay
// taken until the keeper ends.
type Reserve struct {
	Job     string `json:"job"`               // "job-1a2b3c4d"
	Restart int    `json:"restart,omitempty"` // how often the job was restarted
	// Host is the index of this host in the job; the keeper is JOB.run/(1+Host).
	Host     int     `json:"host"`
	First    int     `json:"first"` // lowest rank here
	Ranks    int     `json:"ranks"` // how many are here
	Size     int     `json:"size"`  // ranks of the whole job
	Machine  string  `json:"machine,omitempty"`
	Launcher Address `json:"launcher"` // of JOB.run/0; its NIC must be the asking NIC
	Program  string  `json:"program"`  // absolute path
	// SHA256 is the hash of the launcher's file, in hex; empty: not compared.
	SHA256 string `json:"sha256,omitempty"`
	// Staged means that the program comes by staging, so the keeper does not look for it yet.
	Staged bool   `json:"staged,omitempty"`
	Dir    string `json:"dir"` // working directory of the ranks; absolute
	// Version is that of the launcher's Weft; it must equal the daemon's.
	Version       string `json:"version"`
	Oversubscribe bool   `json:"oversubscribe,omitempty"`
	Link          string `json:"link,omitempty"` // by name; empty: the daemon's own
	// MemoryBytes is the limit of the job's memory on this host; 0: none.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
}

// Address is one process of the fabric, in one life.
type Address struct {
	NIC        registry.NICID `json:"nic,omitempty"`
	Slot       uint16         `json:"slot"`
	Generation uint32         `json:"generation"`
}

// Values of Refusal.What.
const (
	RefusedHost    = "host"
	RefusedVersion = "version"
	RefusedRole    = "role"
	RefusedUser    = "user"
	RefusedSlots   = "slots"
	RefusedDir     = "dir"
	RefusedProgram = "program"
	RefusedMachine = "machine"
	RefusedLink    = "link"
	RefusedMemory  = "memory"
)

// Refusal is one reason why a host takes no ranks, and its cure.
type Refusal struct {
	What string `json:"what"`
	Text string `json:"text"`
	Cure string `json:"cure,omitempty"`
}

// JobReply answers a Job request.
type JobReply struct {
	// Ready means, for reserve, that the keeper waits for the start.
	Ready bool `json:"ready,omitempty"`
	// Refusals holds, for reserve, all causes if it is not ready.
	Refusals []Refusal      `json:"refusals,omitempty"`
	NIC      registry.NICID `json:"nic,omitempty"`  // of the host that answers
	Name     string         `json:"name,omitempty"` // of that host; of slots
	PID      int            `json:"pid,omitempty"`  // of the keeper
	// Keeper is the keeper's address, if it is ready: the launcher need not wait for its name.
	Keeper   *Address  `json:"keeper,omitempty"`
	Jobs     []JobInfo `json:"jobs,omitempty"`
	Machines []Machine `json:"machines,omitempty"`
	Slots    int       `json:"slots,omitempty"` // offered by the host
	// Free counts the free slots; it is below 0 if the host is oversubscribed.
	Free int `json:"free,omitempty"`
}

// States of a JobInfo.
const (
	JobReserved = "reserved" // the keeper waits for the launcher's start
	JobRunning  = "running"
	JobEnding   = "ending"
)

// JobInfo describes the part of a job on one host.
type JobInfo struct {
	ID        string         `json:"job"` // with its restart number if that is not 0
	NIC       registry.NICID `json:"nic,omitempty"`
	User      string         `json:"user"`
	Machine   string         `json:"machine,omitempty"`
	Program   string         `json:"program"`
	Host      int            `json:"host"`
	First     int            `json:"first"`
	Ranks     int            `json:"ranks"`
	Size      int            `json:"size"`
	Restart   int            `json:"restart,omitempty"`
	State     string         `json:"state"`
	Keeper    int            `json:"keeper"`  // pid
	Started   int64          `json:"started"` // Unix time of the reservation, in nanoseconds
	Launcher  Address        `json:"launcher"`
	Processes []RankInfo     `json:"processes,omitempty"` // only in the list of one job
}

// RankInfo describes one rank.
type RankInfo struct {
	Rank int `json:"rank"`
	PID  int `json:"pid"`
	// State comes from /proc: running, sleeping, stopped, traced, uninterruptible or ended.
	State string `json:"state"`
	// Cause is how an ended rank ended, if known: "exited with status 3".
	Cause    string `json:"cause,omitempty"`
	Attached bool   `json:"attached,omitempty"` // the rank is a process of the daemon's NIC

	// Standing is set in the answer to "stuck", for an attached rank.
	Standing *Standing `json:"standing,omitempty"`
}

// Machine is a parallel machine: hosts under a name.
type Machine struct {
	Name  string        `json:"name"`
	Nodes []MachineNode `json:"nodes,omitempty"`
	Slots int           `json:"slots,omitempty"` // of each node; 0: all that the host offers
	Link  string        `json:"link,omitempty"`
	User  string        `json:"user,omitempty"` // the creator; set by the daemon
}

// MachineNode is one host of a machine. In a request, either field may be left out: the daemon
// finds the other one.
type MachineNode struct {
	Name string         `json:"name,omitempty"`
	NIC  registry.NICID `json:"nic,omitempty"`
}

// JobApplication returns the application of a job's ranks. It is also the ID of the job in the
// requests list and kill.
func JobApplication(job string, restart int) string {
	if restart == 0 {
		return job
	}
	return fmt.Sprintf("%s.%d", job, restart)
}

// KeeperApplication returns the application of a job's launcher and keepers. The launcher has
// index 0, and a keeper has 1 + host.
func KeeperApplication(job string, restart int) string { return JobApplication(job, restart) + ".run" }

// Application returns the application of the ranks.
func (r *Reserve) Application() string { return JobApplication(r.Job, r.Restart) }

var (
	jobName     = pattern(`^job-[0-9a-f]{8}$`)
	jobID       = pattern(`^job-[0-9a-f]{8}(\.[1-9][0-9]{0,3})?$`)
	application = pattern(`^[a-z0-9._-]+$`)
	machineName = pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	hexSHA256   = pattern(`^[0-9a-f]{64}$`)
)

// pattern returns a function that compiles an expression at its first use. Otherwise every start
// of a program would pay for all of them.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// mostRestarts has four digits, so that JOB.RESTART.run is a valid application name.
const mostRestarts = 9999

// remote reports whether one NIC may ask another for j. Machines belong to the daemon that keeps
// them.
func (j *Job) remote() bool { return !strings.HasPrefix(j.What, "machine-") }

// check reports what is wrong with a request about jobs.
func (j *Job) check() error {
	switch j.What {
	case JobReserve:
		if j.Reserve == nil {
			return fmt.Errorf("%w: %q comes without its arguments", ErrBadRequest, j.What)
		}
		return j.Reserve.check()
	case JobStuck: // also of a job that another launcher has started
		if !application().MatchString(j.ID) || len(j.ID) > limits.NameBytes {
			return fmt.Errorf("%w: job %.40q; expected the application of its ranks, such as job-1a2b3c4d",
				ErrBadRequest, j.ID)
		}
		return nil
	case JobKill:
		if j.ID == "" {
			return fmt.Errorf("%w: %q comes without the id of a job", ErrBadRequest, j.What)
		}
	case JobMachineSet, JobMachineGet, JobMachineDelete:
		if j.Machine == nil {
			return fmt.Errorf("%w: %q comes without its machine", ErrBadRequest, j.What)
		}
		return j.Machine.check()
	case JobList, JobSlots, JobMachineList:
	default:
		return fmt.Errorf("%w: unknown request %.40q about jobs", ErrBadRequest, j.What)
	}
	if j.ID != "" && !jobID().MatchString(j.ID) {
		return fmt.Errorf("%w: job %.40q; expected an id such as job-1a2b3c4d or job-1a2b3c4d.1", ErrBadRequest, j.ID)
	}
	if j.Grace < 0 || j.Grace > int64(limits.MostJobGrace) {
		return fmt.Errorf("%w: grace %v; expected 0 to %v", ErrBadRequest, time.Duration(j.Grace), limits.MostJobGrace)
	}
	return nil
}

// check reports what is wrong with a reservation for any host.
func (r *Reserve) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: reserve: "+format, append([]any{ErrBadRequest}, args...)...)
	}
	switch {
	case !jobName().MatchString(r.Job):
		return bad("job %.40q; expected job- and eight hexadecimal digits", r.Job)
	case r.Restart < 0 || r.Restart > mostRestarts:
		return bad("restart %d; expected 0 to %d", r.Restart, mostRestarts)
	case r.Host < 0 || r.Host >= limits.JobHosts:
		return bad("host %d; expected 0 to %d", r.Host, limits.JobHosts-1)
	case r.Size < 1 || r.Size > limits.JobSize:
		return bad("a job of %d ranks; expected 1 to %d", r.Size, limits.JobSize)
	case r.Ranks < 1 || r.Ranks > limits.RanksPerHost:
		return bad("%d ranks on one host; expected 1 to %d", r.Ranks, limits.RanksPerHost)
	case r.First < 0 || r.First > r.Size-r.Ranks: // a sum could overflow
		return bad("%d ranks from rank %d on, of %d", r.Ranks, r.First, r.Size)
	case r.Launcher.NIC == 0 || r.Launcher.Slot == 0:
		return bad("the launcher has no address; expected its NIC, slot and generation")
	case r.SHA256 != "" && !hexSHA256().MatchString(r.SHA256):
		return bad("sha256 %.80q; expected 64 hexadecimal digits", r.SHA256)
	case r.MemoryBytes < 0:
		return bad("a limit of %d bytes of memory; expected 0 or more", r.MemoryBytes)
	case len(r.Version) > 64 || len(r.Link) > 64:
		return bad("version %.80q, link %.80q; expected at most 64 bytes", r.Version, r.Link)
	case r.Machine != "" && !validMachine(r.Machine):
		return bad("machine %.80q; %s", r.Machine, machineNameRule)
	}
	for _, p := range []struct{ what, path string }{{"program", r.Program}, {"dir", r.Dir}} {
		if !filepath.IsAbs(p.path) || len(p.path) > limits.PathBytes || strings.ContainsRune(p.path, 0) {
			return bad("%s %.80q; expected an absolute path of at most %d bytes", p.what, p.path, limits.PathBytes)
		}
	}
	return nil
}

const machineNameRule = "expected 1 to 64 letters, digits, '.', '_' or '-', with a letter or digit first"

// CheckMachineName reports what is wrong with the name of a machine.
func CheckMachineName(name string) error {
	if validMachine(name) {
		return nil
	}
	return fmt.Errorf("machine %.80q; %s", name, machineNameRule)
}

func validMachine(name string) bool {
	return len(name) <= limits.MachineNameBytes && machineName().MatchString(name)
}

// check reports what is wrong with a machine.
func (m *Machine) check() error {
	switch {
	case !validMachine(m.Name):
		return fmt.Errorf("%w: machine %.80q; %s", ErrBadRequest, m.Name, machineNameRule)
	case len(m.Nodes) > limits.MachineNodes:
		return fmt.Errorf("%w: machine %s has %d nodes; expected at most %d", ErrBadRequest, m.Name, len(m.Nodes),
			limits.MachineNodes)
	case m.Slots < 0 || m.Slots > limits.SlotsPerHost:
		return fmt.Errorf("%w: machine %s has %d slots a node; expected 0 to %d", ErrBadRequest, m.Name, m.Slots,
			limits.SlotsPerHost)
	case len(m.Link) > 64:
		return fmt.Errorf("%w: machine %s: link %.80q; expected at most 64 bytes", ErrBadRequest, m.Name, m.Link)
	}
	for _, n := range m.Nodes {
		if n.Name == "" && n.NIC == 0 {
			return fmt.Errorf("%w: machine %s: a node has neither a name nor a NIC", ErrBadRequest, m.Name)
		}
		if n.Name != "" {
			if err := registry.CheckName(n.Name); err != nil {
				return fmt.Errorf("%w: machine %s: %w", ErrBadRequest, m.Name, err)
			}
		}
	}
	return nil
}

// Job sends the NIC a request about jobs or machines, and returns the answer.
func (n NIC) Job(ctx context.Context, j *Job) (*JobReply, error) {
	r, err := n.job(ctx, j, 0)
	if err != nil {
		return nil, err
	}
	return r.Job, nil
}

func (n NIC) job(ctx context.Context, j *Job, from int) (*Reply, error) {
	r, _, err := n.c.call(ctx, &Request{Op: OpJob, NIC: n.id, Job: j, From: from}, 0)
	if err == nil && r.Job == nil {
		err = errors.New("the reply to \"job\" lacks its answer")
	}
	return r, err
}

// Jobs lists the jobs that have ranks on the NIC's host.
func (n NIC) Jobs(ctx context.Context) (all []JobInfo, err error) {
	err = n.pages(ctx, JobList, func(r *JobReply) { all = append(all, r.Jobs...) })
	return all, err
}

// JobOf returns one job that has ranks on the NIC's host, with its processes.
func (n NIC) JobOf(ctx context.Context, id string) (*JobInfo, error) {
	var job *JobInfo
	for from := 0; ; {
		r, err := n.job(ctx, &Job{What: JobList, ID: id}, from)
		switch {
		case err != nil:
			return nil, err
		case len(r.Job.Jobs) != 1:
			return nil, fmt.Errorf("the reply about %s has %d jobs", id, len(r.Job.Jobs))
		case job == nil:
			job = &r.Job.Jobs[0]
		default:
			job.Processes = append(job.Processes, r.Job.Jobs[0].Processes...)
		}
		if r.Next <= from {
			return job, nil
		}
		from = r.Next
	}
}

// Machines lists the machines that the NIC's daemon keeps.
func (n NIC) Machines(ctx context.Context) (all []Machine, err error) {
	err = n.pages(ctx, JobMachineList, func(r *JobReply) { all = append(all, r.Machines...) })
	return all, err
}

// pages requests a list that comes in several replies.
func (n NIC) pages(ctx context.Context, what string, take func(*JobReply)) error {
	for from := 0; ; {
		r, err := n.job(ctx, &Job{What: what}, from)
		if err != nil {
			return err
		}
		take(r.Job)
		if r.Next <= from {
			return nil
		}
		from = r.Next
	}
}
