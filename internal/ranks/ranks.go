// Package ranks starts, feeds, signals and ends the processes of one job on one host. It runs
// inside the job's keeper, a process of its own.
//
//	           Feed ──► pipe of one page ──► stdin ┐
//	keeper   Output ◄── lines ◄── pipe ◄─── stdout ┤ rank, in a process group of its own,
//	          Ended ◄── wait4 ◄──────────── exit   ┘ in the job's cgroup if there is one
//	            End ──► TERM, CONT … grace … cgroup.kill, STOP and KILL of every descendant
//
// Nothing escapes the keeper:
//
//   - It is a child subreaper. If the parent of a process ends, as after a double fork with
//     setsid, the process becomes a child of the keeper. So each process of the job is a descendant
//     of the keeper. If the keeper has no child, no process of the job is left. The environment of
//     a process does not matter.
//   - One goroutine forks the ranks. It is locked to a thread that lives until no child is left.
//     Linux sends Pdeathsig when the forking thread ends, and so only when the keeper itself ends.
//   - In a cgroup of version 2, the kernel creates a rank inside the cgroup. In version 1, the
//     forking thread enters the cgroup, and the ranks inherit it. Neither way has a moment in which
//     a rank could fork outside.
//
// Output of a rank stops at a slow receiver: Output blocks, then the pipe is full, then the rank
// blocks. Input stops at a slow rank: the keeper asks for more input when the rank's pipe is empty,
// and buffers at most limits.RankInputBytes.
//
// The Set reaps every child of its process. A process with a Set must not use os/exec, and has one
// Set at once.
package ranks

import (
	"cmp"
	"errors"
	"os"
	"time"

	"github.com/weftnet/weft/internal/cgroup"
	"github.com/weftnet/weft/internal/limits"
)

// Streams of Output, numbered like their file descriptors.
const (
	Stdout = 1
	Stderr = 2
)

// pmiFD is the rank's descriptor of its PMI connection.
const pmiFD = 3

var (
	// ErrBusy means that the process already has a Set with live processes.
	ErrBusy = errors.New("ranks: this process already runs a job; expected one job for each keeper")

	// ErrNoInput means that the rank is unknown, or has no stdin.
	ErrNoInput = errors.New("ranks: the rank reads no input; expected a rank of Config.Stdin")

	// ErrInputFull means that the rank has not read its earlier input. Feed it after the next Want.
	ErrInputFull = errors.New("ranks: too much input waits for the rank; feed it after the next Want")
)

// Config describes the processes of a job on this host. The callbacks run on goroutines of the Set.
// They may block, and may call methods of the Set except Wait. A callback may run concurrently for
// different ranks.
type Config struct {
	// Program is the file to execute. The default is Argv[0]. A name without a slash is looked up
	// in the PATH of Env; a relative path starts at Dir.
	Program string
	Argv    []string
	Env     []string
	Dir     string

	// EnvOf returns further variables of one rank, which replace those of Env. It may be nil.
	EnvOf func(rank int) []string

	Ranks []int // numbers of the ranks, unique

	// Cgroup is the job's control group. If it is nil, the ranks stay in the keeper's.
	Cgroup *cgroup.Group

	// Output receives a rank's output: whole lines in order. Calls for one rank and stream do not
	// overlap. A line without a newline comes after 100 ms or 64 KiB. The slice is valid during the
	// call. After an error, the stream is closed: the rank's next write fails with EPIPE.
	Output func(rank, stream int, lines []byte) error

	// Unbuffered passes bytes to Output as they come.
	Unbuffered bool

	// delay replaces the 100 ms in tests; 0 means the default.
	delay time.Duration

	noPidfds bool // a kernel without pidfds, in tests

	// Stdin names the ranks that Feed serves. The others read from /dev/null.
	Stdin map[int]bool

	// Want reports that a rank has read all its input. It runs once before the first Feed, and once
	// after each Feed that the rank has read. It does not run after CloseStdin.
	Want func(rank int)

	// PMI returns the child's end of a PMI connection, which becomes descriptor 3 and PMI_FD of the
	// rank. Start closes the file. PMI may be nil.
	PMI func(rank int) (*os.File, error)

	// State reports that a rank was stopped or continued. Fast changes may be reported as one. It
	// may be nil.
	State func(rank int, stopped bool)

	// Ended reports the end of a rank, after its last Output. It runs once for each rank. It may be
	// nil.
	Ended func(Exit)
}

func (c *Config) lineDelay() time.Duration { return cmp.Or(c.delay, limits.RankLineDelay) }

// Exit is the end of one rank.
type Exit struct {
	Rank        int           `json:"rank"`
	PID         int           `json:"pid"`
	Status      int           `json:"exit"`             // of a rank that exited; 0 if a signal ended it
	Signal      int           `json:"signal,omitempty"` // that ended it, or 0
	Core        bool          `json:"core,omitempty"`   // it left a core file
	OOM         string        `json:"oom,omitempty"`    // which memory ran out, such as "cgroup limit 512 MiB"
	Cause       string        `json:"cause,omitempty"`  // a phrase such as "exited with status 3"; empty for status 0
	User        time.Duration `json:"user_ns"`
	System      time.Duration `json:"system_ns"`
	MaxRSSBytes int64         `json:"max_rss_bytes"`
	Unkillable  bool          `json:"unkillable,omitempty"` // SIGKILL did not end it

	// Died is when the keeper has noted the death. The times of a job's ranks on one host are
	// different, and in the order of the deaths.
	Died time.Time `json:"-"`
}

// Survivor is a process that SIGKILL did not end in time.
type Survivor struct {
	Rank int    `json:"rank"` // -1 if the process is not a rank itself
	PID  int    `json:"pid"`
	Name string `json:"name"` // of the program, as the kernel shows it
	Why  string `json:"why"`  // its state, such as "uninterruptible in nfs_wait_bit_killable"
}

// Info describes a rank that runs.
type Info struct {
	Rank  int    `json:"rank"`
	PID   int    `json:"pid"`
	State string `json:"state"`           // running, sleeping, stopped, uninterruptible or ended
	Cause string `json:"cause,omitempty"` // of one that has ended: "exited with status 0"
}
