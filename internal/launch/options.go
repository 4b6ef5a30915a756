package launch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// Limits of a job. The number of hosts is bounded by limits.JobHosts, that of ranks by
// limits.JobSize and limits.RanksPerHost.
const (
	// MaxStartBytes bounds the encoded arguments and environment, which Linux bounds to 2 MiB.
	MaxStartBytes = 4 << 20

	// MaxRestarts bounds OnDeath.Restarts.
	MaxRestarts = 1000

	// DefaultGrace is the time between TERM and KILL if Options.Grace is 0.
	DefaultGrace = limits.JobGrace

	// MaxGrace is the longest grace.
	MaxGrace = limits.MostJobGrace

	// ReserveWithin is how long the launcher waits for a host's answer to a Reserve.
	// RestartWithin is how long it repeats refused reservations of a restart: the slots of the
	// earlier ranks become free when their keepers have ended.
	ReserveWithin = 15 * time.Second
	RestartWithin = 10 * time.Second

	// StartWithin is how long a reserved keeper waits for the start. It then ends, and its slots
	// become free.
	StartWithin = 30 * time.Second

	// PingEvery is the time after which the launcher sends a keeper a message, if it has sent
	// none. So it notices a silent host.
	PingEvery = 500 * time.Millisecond

	// Patience is how long the launcher waits beyond the grace for keepers that should end. It
	// then names the hosts whose end it does not know, and returns.
	Patience = 5 * time.Second

	// InFlight is how many reservations a launcher makes concurrently. A job on 1,024 hosts then
	// starts in 9 message delays, if the launcher's process has a context for each of them.
	InFlight = 1024
)

// Exit statuses that are not a rank's own.
const (
	StatusTimeout = 124 // the job has reached Options.Timeout
	StatusFailed  = 125 // the launcher failed, or a host was lost
	StatusRefused = 126 // a host refused, or could not start its ranks
)

// Desk asks the daemon of a host for places. A refusal is a reply with refusals. An error means
// that the host gave no answer, and counts as a refusal of the kind "host".
//
// Run calls Reserve from several goroutines.
type Desk interface {
	Reserve(ctx context.Context, nic weft.NICID, r *ctl.Reserve) (*ctl.JobReply, error)
}

// Killer is a Desk that can ask a daemon to end a job's part on its host. Run asks for it if a
// keeper does not end its ranks within the grace and half of Patience, or sends malformed
// messages.
type Killer interface {
	// Kill ends the ranks of ctl.JobApplication(job, restart) and their keeper at once.
	Kill(ctx context.Context, nic weft.NICID, id string) error
}

// Host is one host of a job, and the ranks that run there. The ranks are consecutive.
type Host struct {
	Name  string
	NIC   weft.NICID
	Ranks []int
}

// Policy tells what a job does when a rank fails.
type Policy uint8

// The policies.
const (
	// End ends all other ranks. The first failure decides the status of the job.
	End Policy = iota

	// Shrink lets the other ranks go on, and notes the failure. The status of the job is 0 if at
	// least one rank ends with 0, and otherwise that of the first failure.
	Shrink

	// Restart ends all other ranks and begins the job again, with a new application for its ranks:
	// JOB.1, JOB.2 and so on. The hosts are reserved anew. After the last restart, or if a host
	// refuses one, the status is that of the last failure.
	Restart
)

// OnDeath is a policy and its limit.
type OnDeath struct {
	Policy   Policy
	Restarts int // how often a job begins again at most; only with Restart
}

// ParseOnDeath reads "end", "shrink" or "restart=N".
func ParseOnDeath(text string) (OnDeath, error) {
	switch n, restart := strings.CutPrefix(text, "restart="); {
	case text == "end":
		return OnDeath{}, nil
	case text == "shrink":
		return OnDeath{Policy: Shrink}, nil
	case restart:
		if k, err := strconv.Atoi(n); err == nil && k > 0 && k <= MaxRestarts {
			return OnDeath{Policy: Restart, Restarts: k}, nil
		}
	}
	return OnDeath{}, fmt.Errorf("%q; expected end, shrink, or restart=N with N from 1 to %d", text, MaxRestarts)
}

// String returns the text that ParseOnDeath reads.
func (d OnDeath) String() string {
	switch d.Policy {
	case Shrink:
		return "shrink"
	case Restart:
		return "restart=" + strconv.Itoa(d.Restarts)
	}
	return "end"
}

// Options describes a job.
type Options struct {
	Job     string // "job-" and 8 hexadecimal digits; see NewJob
	Machine string // name of the machine, or empty
	Hosts   []Host // hosts in the order of their ranks

	Program string   // path of the program
	SHA256  string   // hash of the launcher's file; empty: hosts do not compare
	Argv    []string // arguments, with the program's name
	Env     []string // environment of every rank, without the variables of Weft
	Dir     string   // directory of every rank
	Version string   // Weft's version, which all hosts must have

	Grace   time.Duration // between TERM and KILL; 0: DefaultGrace
	Timeout time.Duration // 0: none
	OnDeath OnDeath
	Stdin   string // "0", "all", "none", or a rank; empty: "0"

	Unbuffered    bool  // output passes byte by byte, not line by line
	PMI           bool  // ranks get a PMI-1 server
	Oversubscribe bool  // hosts accept more ranks than slots
	MemoryBytes   int64 // limit of the job's memory on each host; 0: none
	Key           []byte
	Link          string // name of the network, or empty

	// Defect is a mistake that the simulation must find; it is empty except in tests.
	Defect mutate.LaunchDefect

	// Stage is the staged content, or nil. Each host gets it after all are reserved and before any
	// rank starts.
	Stage *Stage

	// Notices carries news without the NICs. If it is nil, the other hosts notice a killed daemon
	// only by the silence of its NIC.
	Notices *Notices

	// AtTimeout is called at the timeout, before the job is ended. The job ends after AtTimeout has
	// returned or its context has ended, which happens after 3 s. AtTimeout may be nil.
	AtTimeout func(ctx context.Context)
}

// Stage is content of the launcher that each host needs before its ranks start.
type Stage struct {
	// Manifest returns the description of the content for the keepers, of at most 64 KiB. The
	// keepers and the launcher of an attempt have different applications if restart is not 0: see
	// ctl.KeeperApplication.
	Manifest func(restart int) []byte

	// Serve answers the requests of the keepers until ctx ends. It is called once for each attempt.
	Serve func(ctx context.Context, p *weft.Process, restart int) error
}

// Start is the message of the second phase of a launch: all that a keeper needs to start its
// ranks.
type Start struct {
	Job         string   `json:"job"`
	Restart     int      `json:"restart,omitempty"`
	Argv        []string `json:"argv"`
	Env         []string `json:"env,omitempty"`
	Program     string   `json:"program"`
	Dir         string   `json:"dir"`
	Machine     string   `json:"machine,omitempty"`
	Ranks       []int    `json:"ranks"`
	Size        int      `json:"size"`
	Stdin       []int    `json:"stdin,omitempty"` // ranks of this host that read from the launcher
	Grace       int64    `json:"grace_ns"`        // after the launcher is lost
	OnDeath     string   `json:"on_death,omitempty"`
	Unbuffered  bool     `json:"unbuffered,omitempty"`
	MemoryBytes int64    `json:"memory_bytes,omitempty"`
	Link        string   `json:"link,omitempty"`
	PMI         bool     `json:"pmi,omitempty"`
	// Mapping tells which ranks share a host, in the form of PMI-1.
	Mapping string `json:"mapping,omitempty"`
	Key     []byte `json:"key,omitempty"`

	Notices *NoticePort `json:"notices,omitempty"` // nil: the launcher takes no notices
}

// App returns the application name of the ranks. Each restart has its own application.
func (m *Start) App() string { return ctl.JobApplication(m.Job, m.Restart) }

// NewJob returns a job name that no other job has: the runtime draws 32 random bits.
func NewJob(r weft.Runtime) string { return fmt.Sprintf("job-%08x", uint32(r.Random())) }

// LauncherName returns the name of a job's launcher. It stays the same when the job begins again.
func LauncherName(job string) weft.Name { return weft.Name{App: ctl.KeeperApplication(job, 0)} }

// KeeperName returns the name of the keeper that a reservation asks for.
func KeeperName(r *ctl.Reserve) weft.Name {
	return weft.Name{App: ctl.KeeperApplication(r.Job, r.Restart), Index: uint32(1 + r.Host)}
}
